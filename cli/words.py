"""Words of a command line, refused where they cannot be right, before any is used."""

from __future__ import annotations

import os
import re
from pathlib import Path

import click

from gpu_node.cli.loading import loading
from gpu_node.facts.ask.pyinfra_file import pyinfra_file, wrong_suffix
from gpu_node.inventories.errors import shown
from gpu_node.inventories.fields.addresses import is_address

_LOGIN = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*\$?")
_LONGEST_LOGIN = 32


def inventory(_: click.Context, __: click.Parameter, word: str) -> str:
    """Return the inventory for pyinfra: of a cluster file the .py file beside it, if there is one.

    A path without a file is refused: pyinfra would take it for the name of a host.
    """
    looks_like_file = word.lower().endswith((".py", ".yml", ".yaml")) or os.sep in word
    is_folder, is_file = not word or Path(word).is_dir(), Path(word).is_file()
    if is_folder or (looks_like_file and not is_file):
        raise click.UsageError(f"no such inventory file: {word}")
    # pyinfra allows an inventory without a suffix.
    if is_file and Path(word).suffix and (error := wrong_suffix(word)):
        raise click.UsageError(error)
    return pyinfra_file(word)


def name(_: click.Context, __: click.Parameter, word: str | None) -> str | None:
    """Take a name; an address in its place is the commonest slip."""
    if word is not None and is_address(word.strip()):
        raise click.BadParameter(
            f"found {shown(word)}; allowed: a name, not an address: gpu-node onboard NAME ADDRESS"
        )
    return word


def address(_: click.Context, __: click.Parameter, word: str | None) -> str | None:
    """Take an address, without the blanks around it."""
    return word if word is None else _filled(word.strip(), "an IP address or a host name")


def group(_: click.Context, __: click.Parameter, word: str | None) -> str | None:
    """Take the name of a group; the cluster file decides later whether it exists."""
    return word if word is None else _filled(word, "a group of the cluster file")


def user(_: click.Context, __: click.Parameter, word: str | None) -> str | None:
    """Take what useradd would take for a login name."""
    if word is None:
        return None
    is_long = len(word) > _LONGEST_LOGIN
    if is_long or not _LOGIN.fullmatch(word):
        why = f" ({len(word)} characters)" if is_long else ""
        raise click.BadParameter(
            f"found {shown(word)}{why}; allowed: a login name: letters, digits, _, . and -, a "
            f"letter or _ first, at most {_LONGEST_LOGIN} characters, such as root"
        )
    return word


def fingerprints(_: click.Context, __: click.Parameter, words: tuple[str, ...]) -> tuple[str, ...]:
    """Take fingerprints of host keys."""
    if not words:
        return words
    with loading():
        from gpu_node.inventories.servers_csv import wrong_fingerprint
    for word in words:
        for problem in wrong_fingerprint(word):
            raise click.BadParameter(str(problem))
    return words


def _filled(word: str, allowed: str) -> str:
    if not word:
        raise click.BadParameter(f"found {shown(word)}; allowed: {allowed}")
    return word

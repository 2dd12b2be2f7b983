"""Words of a command line about a server, refused where they can be none, before any is used."""

from __future__ import annotations

import re

import click

from inventories.newcomers import is_address, wrong_fingerprint
from inventories.problems import shown

_LOGIN = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*\$?")
_LONGEST_LOGIN = 32


def name(_: click.Context, __: click.Parameter, word: str | None) -> str | None:
    """Take a name; an address in its place is the commonest slip."""
    if word is not None and is_address(word.strip()):
        raise click.BadParameter(
            f"found {shown(word)}; allowed: a name, not an address: gpu-node onboard NAME ADDRESS"
        )
    return word


def address(_: click.Context, __: click.Parameter, word: str | None) -> str | None:
    """Take an address, without the blanks around it."""
    return word if word is None else _said(word.strip(), "an IP address or a host name")


def group(_: click.Context, __: click.Parameter, word: str | None) -> str | None:
    """Take the name of a group; whether there is one the cluster file tells."""
    return word if word is None else _said(word, "a group of the cluster file")


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
    for word in words:
        for problem in wrong_fingerprint(word):
            raise click.BadParameter(str(problem))
    return words


def _said(word: str, allowed: str) -> str:
    if not word:
        raise click.BadParameter(f"found {shown(word)}; allowed: {allowed}")
    return word

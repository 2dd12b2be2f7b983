"""Words of a command line, refused where they cannot be right, before any is used."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from difflib import get_close_matches
from functools import wraps
from pathlib import Path
from typing import Any

import click

from gpu_node.cli import completion
from gpu_node.cli.loading import loading
from gpu_node.facts.ask.pyinfra_file import (
    CLUSTER_SUFFIX,
    INVENTORIES,
    NO_INVENTORY,
    SUFFIX,
)
from gpu_node.facts.ask.via import SSH
from gpu_node.history import when
from gpu_node.inventories.errors import shown, worded
from gpu_node.inventories.fields.addresses import ADDRESS, is_address, with_port
from gpu_node.inventories.regular_file import why_none
from gpu_node.inventories.yaml.foreign import is_cluster_file, wrong_suffix

_LOGIN = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*\$?")
_LONGEST_LOGIN = 32
# How many inventories of a folder an error lists.
_MOST_MEANT = 5

limit = click.option(
    "--limit",
    multiple=True,
    metavar="X",
    shell_complete=completion.limits,
    help="A group or host (pattern).",
)


def sudo_password(command: Callable[..., int]) -> Callable[..., int]:
    """Give a command that asks nodes --ask-sudo-password; it is typed before a node is asked.

    The command's own words are checked before that.
    """

    @click.option(
        "--ask-sudo-password",
        "asks",
        is_flag=True,
        help="Ask for the SSH user's password for sudo, once for all nodes.",
    )
    @wraps(command)
    def asking(*, asks: bool, **given: Any) -> int:
        if asks:
            _take_sudo_password(given)
        return command(**given)

    return asking


cluster_file = click.option(
    "--inventory",
    required=True,
    metavar="FILE.yml",
    shell_complete=completion.files,
    help="The cluster file (.yml), or the .py file beside it.",
)


def _take_sudo_password(given: Mapping[str, Any]) -> None:
    """Have the password asked for; refuse it beside what uses no sudo, and without a terminal."""
    beside = {
        f"with --via {given.get('via')}": given.get("via", SSH) != SSH,
        "with --answers": given.get("answers") is not None,
        "without --inventory": given.get("inventory", "") is None,
        "without --sudo": given.get("sudo") is False and not given["again"],
    }
    for other in (other for other, is_given in beside.items() if is_given):
        allowed, then = "one of them", ""
        if other.startswith("without"):
            allowed, then = "both", f"add {other.removeprefix('without ')}"
        raise click.UsageError(worded(f"--ask-sudo-password {other}", "", allowed, then))
    with loading():
        from gpu_node.facts.ask.sudo import AS_ROOT, line_for
        from gpu_node.inventories.connection.sudo import SUDO
        from gpu_node.onboarding.trust.password import is_attended
    if not is_attended():
        why, allowed = "the password is read from nothing else", "a terminal, as of ssh -t"
        then = f"without one, let sudo ask for none: {line_for('')}; {AS_ROOT}"
        problem = worded("no terminal to ask on", why, allowed, then)
        raise click.UsageError(f"--ask-sudo-password: {problem}")
    SUDO.ask_by(_typed_sudo_password)


def _typed_sudo_password() -> str:
    with loading():
        from gpu_node.onboarding.errors import ContactError
        from gpu_node.onboarding.trust.password import asked
    try:
        secret = asked("Password for sudo on the nodes: ")
    except ContactError as error:
        raise click.ClickException(f"--ask-sudo-password: {error}") from None
    if secret is None:
        problem = worded("no password", "", "the one that sudo asks the SSH user for")
        raise click.ClickException(f"--ask-sudo-password: {problem}")
    return secret.reveal()


def inventory(_: click.Context, __: click.Parameter, word: str) -> str:
    """Return the inventory as it is typed, which is its name in all texts.

    A path without a file is refused: pyinfra would take it for the name of a host.
    """
    looks_like_file = word.lower().endswith((".py", ".yml", ".yaml")) or os.sep in word
    why = why_none(word, NO_INVENTORY)
    is_file = not why
    meant = [] if is_file else _meant(Path(word))
    if not word or why not in ("", NO_INVENTORY) or (why and (looks_like_file or meant)):
        raise click.BadParameter(no_inventory(word, meant))
    if is_file and (error := wrong_suffix(word)):
        raise click.UsageError(error)
    return word


def inventory_file(context: click.Context, param: click.Parameter, word: str) -> str:
    """Return the inventory as above; a host, or a connector of pyinfra's, is refused."""
    found = inventory(context, param, word)
    if why_none(found, NO_INVENTORY):
        raise click.BadParameter(no_inventory(word))
    return found


def no_inventory(word: str, meant: Sequence[str] = ()) -> str:
    """Return the problem of a path that is no inventory; `meant` are the likely ones."""
    why = why_none(word, NO_INVENTORY)
    if meant:
        why += f", did you mean {' or '.join(meant)}?"
    then = "" if meant else "write one: gpu-node init cluster NAME=ADDRESS ..."
    return worded(shown(word), why, INVENTORIES, then)


def _meant(path: Path) -> list[str]:
    """Return the inventories that a path without a file may stand for: a folder's, or a name's."""
    try:
        inside = path if path.is_dir() else path.parent
        # Of a name alone, the file of a folder as well: init writes cluster/site.yml.
        below = (
            [] if path.is_dir() or path.suffix else inside.glob(f"*/{glob.escape(path.name)}.yml")
        )
        clusters = sorted(filter(is_cluster_file, (*inside.glob("*.yml"), *below)))
    except OSError:
        return []
    suffix = SUFFIX if path.suffix == SUFFIX else CLUSTER_SUFFIX
    found = [cluster.with_suffix(suffix) for cluster in clusters]
    files = [str(each if each.is_file() else each.with_suffix(CLUSTER_SUFFIX)) for each in found]
    if not path.is_dir():
        # Its file without a suffix, or another spelling of it.
        near = [file for file in files if path.suffix or Path(file).stem == path.name]
        files = get_close_matches(str(path), near, n=1, cutoff=0.3 if not path.suffix else 0.6)
    return files[:_MOST_MEANT]


def name(_: click.Context, __: click.Parameter, word: str | None) -> str | None:
    """Take a name; an address in its place is the commonest slip."""
    if word is not None and is_address(word.strip()):
        allowed, then = "a name, not an address", "gpu-node onboard NAME ADDRESS"
        raise click.BadParameter(worded(shown(word), "", allowed, then))
    allowed = "a name, and an address"
    if word is not None and "=" in word:
        why, then = "NAME=ADDRESS is a word of init", f"gpu-node onboard {word.replace('=', ' ')}"
        raise click.BadParameter(worded(shown(word), why, allowed, then))
    if word is not None and word.endswith(CLUSTER_SUFFIX):
        then = f"gpu-node onboard NAME ADDRESS --inventory {word}"
        raise click.BadParameter(worded(shown(word), "a cluster file", allowed, then))
    return word


def address(_: click.Context, __: click.Parameter, word: str | None) -> str | None:
    """Take an address, without the blanks around it."""
    return word if word is None else _filled(word.strip(), ADDRESS)


def at_port(address: str, port: int | None) -> tuple[str, int | None]:
    """Return the address and the port of ADDRESS:PORT; `port` is that of --port."""
    try:
        host, own = with_port(address)
    except ValueError as error:
        allowed = "ADDRESS, or ADDRESS:PORT with a port of 1 to 65535"
        problem = worded(shown(address), f"{shown(error)} is not a port", allowed)
        raise click.UsageError(f"ADDRESS: {problem}") from None
    if own and port and own != port:
        problem = worded(shown(port), f"ADDRESS has port {own}", "one of the two")
        raise click.UsageError(f"--port: {problem}")
    return host, own or port


def group(_: click.Context, __: click.Parameter, word: str | None) -> str | None:
    """Take the name of a group; the cluster file decides later whether it exists."""
    return word if word is None else _filled(word, "a group of the cluster file")


def folder(_: click.Context, __: click.Parameter, word: str | None) -> str | None:
    """Take a directory; the empty text, as of an unset variable, is not the working directory."""
    return word if word is None else _filled(word, "a directory")


answers = click.option(
    "--answers",
    metavar="DIR",
    shell_complete=completion.folders,
    callback=folder,
    help="Read NODE.txt in DIR, what the scripts of `gpu-node probe` printed; contact no node.",
)


def user(_: click.Context, __: click.Parameter, word: str | None) -> str | None:
    """Take what useradd would take for a login name."""
    if word is None:
        return None
    is_long = len(word) > _LONGEST_LOGIN
    if is_long or not _LOGIN.fullmatch(word):
        why = f"{len(word)} characters" if is_long else ""
        allowed = (
            "a login name: letters, digits, _, . and -, a letter or _ first, at most "
            f"{_LONGEST_LOGIN} characters, such as root"
        )
        raise click.BadParameter(worded(shown(word), why, allowed))
    return word


def fingerprints(_: click.Context, __: click.Parameter, words: tuple[str, ...]) -> tuple[str, ...]:
    """Take fingerprints of host keys, which may have a server's name before them."""
    if not words:
        return words
    with loading():
        from gpu_node.inventories.servers_csv import wrong_fingerprint
    for word in words:
        for problem in wrong_fingerprint(word.rpartition("=")[2]):
            raise click.BadParameter(str(problem))
    return words


def _filled(word: str, allowed: str) -> str:
    if not word:
        raise click.BadParameter(worded(shown(word), "", allowed))
    return word


def moment(word: str, allowed: str = when.ALLOWED) -> datetime | None:
    """Return the moment that --since names, None for the last report; refuse any other word."""
    try:
        return when.moment(word, datetime.now().astimezone())
    except ValueError as error:
        raise wrong_since(word, str(error), allowed) from None


def wrong_since(word: str, why: str, allowed: str = when.ALLOWED) -> click.UsageError:
    """Return the error for a --since that cannot be used."""
    return click.UsageError(f"--since: {worded(shown(word), why, allowed)}")

"""The one form of all errors, as lines a person can act on.

    gpu-node: [FILE:LINE: ][KEY: ]found WHAT[ (WHY)][; allowed: WHAT][; next: WHAT]

A part that does not exist is left out; the order never changes; a line is one problem.
"""

import errno
import os
import re
import sys
from collections.abc import Iterable
from difflib import get_close_matches
from functools import lru_cache
from typing import NamedTuple

from typing_extensions import override

from gpu_node.inventories.escape import visible
from gpu_node.inventories.plurals import few

KeyPath = tuple[str | int, ...]
"""Keys from the top of a document down to a value."""


def at(value: object, path: KeyPath) -> object:
    """The value a path leads to, None where it leads nowhere."""
    for key in path:
        if isinstance(value, list) and isinstance(key, int) and key < len(value):
            value = value[key]
        else:
            value = value.get(key) if isinstance(value, dict) else None
    return value


PROGRAM = "gpu-node"
_MOST_MEANT = 500
# Nearer than torch is to fetch.
_NEAR = 0.65
_MOST_LISTED = 60
# Of the next step: a line of a file can have any length.
_MOST = 400
_LONGEST_NAME = 255


def worded(found: str, why: str = "", allowed: str = "", then: str = "") -> str:
    """Return a problem in the form of all errors, without its place; `then` is the next step."""
    parts = [f"found {found}{f' ({why})' if why else ''}"]
    parts += [f"allowed: {allowed}"] * bool(allowed)
    parts += [f"next: {then}"] * bool(then)
    return "; ".join(parts)


def as_found(text: str) -> str:
    """Return what a node or a program answered as a problem, which begins with `found`."""
    is_one = text.startswith("found ") or ": found " in text
    return text if is_one else f"found {text}"


def about(name: str, line: str) -> str:
    """Return a problem with the node that it is about, behind the file that it is in."""
    key = f"{name}: " if name else ""
    place = re.match(r"[^:]*\.(?:yml|yaml|py|csv)(?::\d+)?: ", line)
    file = place[0] if place else ""
    rest = line[len(file) :]
    return file + (rest if name and rest.startswith(key) else key + as_found(rest))


def as_printed(text: str) -> str:
    """Return problems, one a line, as a command prints them; an indented line belongs to one."""
    return "\n".join(
        line if line[:1] in ("", " ") else f"{PROGRAM}: {line}" for line in text.split("\n")
    )


def failed(error: Exception, name: str = "") -> str:
    """Return why a command ended, as problems one a line; `name` is the node that it is about.

    Raises BrokenPipeError where the reader of stdout has ended: no failure of the command.
    """
    if isinstance(error, BrokenPipeError):
        sys.stdout.flush()
    return "\n".join(
        line if line[:1] in ("", " ") else about(name, line)
        for line in _reason_of(error).split("\n")
    )


def _reason_of(error: Exception) -> str:
    """Return why a command ended, with the file where the system names one."""
    if not isinstance(error, OSError):
        return str(error)
    words = reason(error)
    if error.filename is not None:
        name = str(error.filename)
        return f"{name if len(name) <= _LONGEST_NAME else quoted(name)}: {worded(words)}"
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO):
        return worded(words, "writing to stdout, or to a temporary file")
    if isinstance(error, FileNotFoundError) and not _has_folder():
        return worded("a working directory that was deleted", then="cd to one that exists")
    return worded(words)


def _has_folder() -> bool:
    try:
        return bool(os.getcwd())
    except FileNotFoundError:
        return False


class Problem(NamedTuple):
    """One thing wrong with one value; `found` is as it will be printed, `why` may be empty.

    `kind` is pydantic's type of the error, or the check's: a table of advice is by kind.
    """

    path: KeyPath
    found: str
    why: str
    allowed: str
    then: str = ""
    kind: str = "check"

    @override
    def __str__(self) -> str:
        return worded(
            self.found, self.why, self.allowed, visible(without_password(self.then), _MOST)
        )

    def at(self, file: object, line: int = 0) -> str:
        """Return the problem with its file and its key; line 0 is the file as a whole."""
        key = f"{dotted(self.path)}: " if self.path else ""
        return f"{file}{f':{line}' if line else ''}: {key}{self}"


class InventoryError(ValueError):
    """Everything wrong with an inventory; `str()` has one line a problem.

    `keys` has the flat key of each line where they are about host data.
    """

    def __init__(self, lines: Iterable[str], keys: Iterable[str] = ()) -> None:
        self.lines, self.keys = tuple(lines), tuple(keys)
        super().__init__("\n".join(self.lines))


class Unconfirmed(Exception):
    """A user did not confirm a change, or could not be asked; `str()` is for the user."""


class Wrong(ValueError):
    """Why a check refuses a value, and what to write in its place."""

    def __init__(self, why: str, then: str) -> None:
        super().__init__(why)
        self.then = then


def reason(error: OSError) -> str:
    """Why a file cannot be read or written, in the system's words."""
    return (error.strerror or str(error)).lower().removeprefix("is ")


def quoted(text: str) -> str:
    """The text in quotes on one line, cut where it gets long."""
    return repr(text if len(text) <= 80 else f"{text[:77]}...")


def shown(value: object) -> str:
    """A value as a message shows it."""
    if value is None:
        return "nothing"
    if isinstance(value, dict):
        return "a mapping" if value else "an empty mapping"
    if isinstance(value, list | tuple):
        return "a list"
    return quoted(without_password(str(value)))


def without_password(text: str) -> str:
    """Return a text without the user and the password of its URLs."""
    return re.sub(r"://[^/?#\s]*@", "://...@", text)


def dotted(path: Iterable[str | int]) -> str:
    """hosts.a100-01.shm.size, with keys that would not print put in quotes."""
    return ".".join(key if key.isprintable() else quoted(key) for key in map(str, path))


def listed(names: Iterable[str]) -> str:
    """Return names with commas; of many the first ones, and the number of the others."""
    return ", ".join(few(names, _MOST_LISTED, "{} others"))


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A hint to put behind a reason, or the empty text when nothing known is close."""
    close = nearest(word, known)
    return f", did you mean {close}?" if close else ""


@lru_cache(4096)
def _plain(word: str) -> str:
    return "".join(filter(str.isalnum, word.casefold()))


def nearest(word: str, known: Iterable[str], cutoff: float = _NEAR) -> str:
    """Return the known word that is close to one; the empty text where none is."""
    names = tuple(known)
    # A100} and A-100 are a100, which v100 is as close to.
    if len(same := [each for each in names if _plain(each) == _plain(word)]) == 1:
        return same[0]
    # Of hundreds, many are as close as another, and each comparison costs.
    close = get_close_matches(word, names, 3, cutoff) if len(names) <= _MOST_MEANT else []
    # smh is shm, in another order, before it is ssh.
    return min(close, key=lambda each: sorted(each) != sorted(word), default="")

"""What is wrong with an inventory, as lines a person can act on."""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import NamedTuple

from typing_extensions import override

KeyPath = tuple[str | int, ...]
"""Keys from the top of a document down to a value."""


def at(value: object, path: KeyPath) -> object:
    """The value a path leads to, None where it leads nowhere."""
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


class Problem(NamedTuple):
    """One thing wrong with one value; `found` is as it will be printed, `why` may be empty."""

    path: KeyPath
    found: str
    why: str
    allowed: str

    @override
    def __str__(self) -> str:
        why = f" ({self.why})" if self.why else ""
        return f"found {self.found}{why}; allowed: {self.allowed}"


class InventoryError(ValueError):
    """Everything wrong with an inventory; `str()` has one line a problem."""

    def __init__(self, lines: Iterable[str]) -> None:
        self.lines = tuple(lines)
        super().__init__("\n".join(self.lines))


def reason(error: OSError) -> str:
    """Why a file cannot be read or written, in the system's words."""
    return (error.strerror or str(error)).lower()


def quoted(text: str) -> str:
    """The text in quotes on one line, cut where it gets long."""
    return repr(text if len(text) <= 80 else f"{text[:77]}...")


def shown(value: object) -> str:
    """A value as a message shows it."""
    if value is None:
        return "nothing"
    if isinstance(value, dict):
        return "a mapping" if value else "an empty mapping"
    return "a list" if isinstance(value, list | tuple) else quoted(str(value))


def dotted(path: KeyPath) -> str:
    """hosts.a100-01.shm.size, with keys that would not print put in quotes."""
    return ".".join(key if key.isprintable() else quoted(key) for key in map(str, path))


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A hint to put behind a reason, or the empty text when nothing known is close."""
    close = get_close_matches(word, list(known), n=1)
    return f", did you mean {close[0]}?" if close else ""

"""Answers of a usual shape: one line, lines, lines that begin with a word, columns.

An answer with a grammar (configuration files, JSON, lists of rsync) has a parser in its area.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

from pydantic import BaseModel

from gpu_node.facts.probe.lines import lines_of
from gpu_node.facts.probe.protocol import Unreadable

_NUMBER = re.compile(r"-?[0-9]{1,20}")
T = TypeVar("T", bound=BaseModel)


def line(text: str) -> str:
    """Return the one line of an answer, which is not empty."""
    if not text.strip():
        raise Unreadable("an empty answer")
    return text.strip()


def lines(text: str) -> tuple[str, ...]:
    """Return the lines of an answer."""
    return tuple(lines_of(text))


def number(text: str) -> int:
    """Return a whole number."""
    if not _NUMBER.fullmatch(text.strip()):
        raise ValueError(f"not a number: {text[:60]!a}")
    return int(text)


def by_word(
    text: str | Iterable[str], between: str = " ", words: str = ""
) -> defaultdict[str, list[str]]:
    """Return what follows the first word of the lines of a text, or of some lines, by that word.

    With `words`, another word is an error.
    """
    known, rows = words.split(), defaultdict[str, list[str]](list)
    for each in filter(None, lines_of(text) if isinstance(text, str) else text):
        word, _, rest = each.partition(between)
        if known and word not in known:
            raise Unreadable(f"not understood: {each[:80]!r}")
        rows[word].append(rest)
    return rows


def pairs(text: str | Iterable[str], between: str = " ") -> dict[str, str]:
    """Return what follows the first word of each line, by that word; the last of several counts."""
    return {word: several[-1] for word, several in by_word(text, between).items()}


def parted(text: str, *beginnings: str) -> tuple[str, str]:
    """Return the lines that begin in one of some ways, and the others."""
    parts: tuple[list[str], list[str]] = [], []
    for each in lines_of(text):
        parts[not each.startswith(beginnings)].append(each)
    return "\n".join(parts[0]), "\n".join(parts[1])


def _switch(text: str) -> bool:
    return {"yes": True, "no": False}[text]


def _or_none(read: Callable[[str], Any]) -> Callable[[str], Any]:
    return lambda cell: None if cell in ("", "-") else read(cell)


# How a column is read, by the type of its field.
_READERS: dict[object, Callable[[str], Any]] = {
    int: number,
    bool: _switch,
    int | None: _or_none(number),
    str | None: _or_none(str),
    tuple[str, ...]: lambda cell: tuple(cell.split()),
}


class Columns(Generic[T]):
    """Reads lines of columns as models.

    `names` are the columns, each a field of the model, whose type says how it is read: a number,
    yes or no, a text, words. An empty column, or "-", of a field that may be None is None. A last
    field with a default may be missing; a last name with "..." takes the rest of the line.
    `checks` read a column in another way.
    """

    def __init__(
        self, model: type[T], names: str, between: str = "\t", **checks: Callable[[str], Any]
    ) -> None:
        self.model, self.names, self.between = model, names.removesuffix("...").split(), between
        self.splits = len(self.names) - 1 if names.endswith("...") else -1
        fields = model.model_fields
        self.least = sum(fields[name].is_required() for name in self.names)
        self.checks = {name: _READERS.get(fields[name].annotation, str) for name in self.names}
        self.checks |= checks

    def row(self, text: str, /, **more: Any) -> T:
        """Return the model of one line; `more` are values of fields, in place of their columns."""
        cells = text.split(self.between, self.splits)
        if not self.least <= len(cells) <= len(self.names):
            raise ValueError(f"{len(cells)} columns, not {' '.join(self.names)}")
        pairs = zip(self.names, cells, strict=False)
        values = {name: self.checks[name](cell) for name, cell in pairs}
        return self.model(**{**values, **more})

    def __call__(self, text: str) -> tuple[T, ...]:
        """Return the models of all lines that are not empty."""
        return tuple(map(self.row, filter(None, lines_of(text))))

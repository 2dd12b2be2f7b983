"""Numbers of things as text: 1 node, 2 nodes; and of many things some, and how many more."""

from __future__ import annotations

from collections.abc import Iterable


def counted(count: int, thing: str, plural: str = "", none: str = "0") -> str:
    """Return how many there are of a thing; `plural` is by default the thing with an s."""
    return f"{count or none} {thing if count == 1 else plural or f'{thing}s'}"


def few(words: Iterable[str], most: int, more: str = "{} more") -> list[str]:
    """Return words; of more than `most` the first, and in place of the others their number."""
    known = list(words)
    left = len(known) - most
    return [*known[:most], more.replace("{}", str(left), 1)] if left > 0 else known

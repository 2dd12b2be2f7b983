"""A number and its thing as text: 1 node, 2 nodes."""

from __future__ import annotations


def counted(count: int, thing: str, plural: str = "", none: str = "0") -> str:
    """Return how many there are of a thing; `plural` is by default the thing with an s."""
    return f"{count or none} {thing if count == 1 else plural or f'{thing}s'}"

"""Batches of nodes that a deploy changes one after the other."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

_COUNT = re.compile(r"[1-9][0-9]{0,5}")
_SHARE = re.compile(r"([1-9][0-9]?|100)%")
ALLOWED = "a number of nodes, such as 2, or a share of them, such as 25%"


def size_of(word: str, nodes: int) -> int:
    """Return how many of some nodes a batch has, at least 1; ValueError where `word` is neither."""
    if _COUNT.fullmatch(word):
        return int(word)
    if (share := _SHARE.fullmatch(word)) is None:
        raise ValueError(f"found {word!r}; allowed: {ALLOWED}")
    return max(1, math.floor(nodes * int(share[1]) / 100))


def batches(models: Mapping[str, str], size: int) -> list[tuple[str, ...]]:
    """Return nodes in batches; `models` has each node's GPU model, "" where it is not known.

    The first batches hold one node of each model: a fault that all of a model have shows early.
    """
    of_model: dict[str, str] = {}
    for name, model in models.items():
        of_model.setdefault(model, name)
    first = list(of_model.values())
    ordered = [*first, *(name for name in models if name not in first)]
    return [tuple(ordered[at : at + size]) for at in range(0, len(ordered), size)]

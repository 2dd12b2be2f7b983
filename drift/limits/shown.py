"""What the report shows of a fresh session's limits, and compares between nodes."""

from functools import partial

from gpu_node.drift.engine.fact import shows
from gpu_node.drift.units import limit
from gpu_node.facts.limits.state import Item, Pair

_SHOWN: tuple[Item, ...] = ("nofile", "memlock", "stack")


def _pair(item: Item, pair: Pair) -> str:
    return "/".join(limit(side, item) for side in (pair.soft, pair.hard))


for _item in _SHOWN:
    shows(f"limits.{_item}")(partial(_pair, _item))

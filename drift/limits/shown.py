"""What the report shows of a fresh session's limits, and compares between nodes."""

from __future__ import annotations

from collections.abc import Callable

from gpu_node.drift.engine.fact import Fact
from gpu_node.drift.engine.rule import Rule
from gpu_node.drift.limits import rules
from gpu_node.drift.limits.rules_between import differs
from gpu_node.drift.units import limit
from gpu_node.facts.limits.state import Item
from gpu_node.facts.node import NodeState
from gpu_node.inventories.schema import NodeWanted


def pair(item: Item) -> Callable[[NodeState], str | None]:
    def value(node: NodeState) -> str | None:
        if node.limits.session is None:
            return None
        pair = getattr(node.limits.session, item)
        return "/".join(limit(side, item) for side in (pair.soft, pair.hard))

    return value


def nr_open(node: NodeState) -> str | None:
    return None if node.limits.nr_open is None else str(node.limits.nr_open)


def _limit(item: Item, *marked_by: Rule | str) -> Fact:
    def is_managed(wanted: NodeWanted) -> bool:
        return wanted.limits is not None and getattr(wanted.limits, item) is not None

    marks = (*marked_by, f"{rules.not_effective.id}:{item}")
    return Fact(f"limits.{item}", "must-equal", marks, pair(item), differs, is_managed)


FACTS = (
    _limit("nofile", rules.nofile, f"{rules.above_ceiling.id}:nofile in the inventory"),
    _limit("memlock", rules.memlock),
    _limit("stack", rules.stack_unlimited),
    Fact("limits.nr_open", "per-host", (rules.above_ceiling,), nr_open),
)

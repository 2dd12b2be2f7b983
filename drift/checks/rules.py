"""The rule about `checks` of the inventory: what is off until a date is on again after it."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_node.drift.engine.nodes import Nodes
from gpu_node.drift.engine.rule import Fault, rule
from gpu_node.facts.node import NodeState
from gpu_node.inventories.fields.switched import Off
from gpu_node.inventories.schema import NodeWanted


@rule(
    "checks.expired",
    "warning",
    whole=True,
    between=True,
    why="what the entry was to hide counts again, and gpu-node deploy repairs what it can of it",
    manual="repair what the entry was to hide, and remove it from checks in the inventory; or "
    "write a later day",
)
def expired(state: NodeState, wanted: NodeWanted, nodes: Nodes) -> Iterator[Fault]:
    """The last day of an entry of `checks` in the inventory is over."""
    for name, entry in (wanted.checks or {}).items():
        if isinstance(entry, Off) and entry.is_over(nodes.day):
            yield Fault(
                subject=f"checks.{name}",
                found=f"off until {entry.until} ({entry.reason})",
                wanted="a day that is not over, or no entry",
            )

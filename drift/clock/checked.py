"""What a pre-flight shows of the clock."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_node.drift.clock.rules import skew
from gpu_node.drift.engine.nodes import Nodes
from gpu_node.drift.engine.preflight import Check, Checked
from gpu_node.facts.node import NodeState
from gpu_node.inventories.schema import NodeWanted


def _time(state: NodeState, wanted: NodeWanted, nodes: Nodes) -> Iterator[Check]:
    is_read = state.clock.begin is not None and state.clock.end is not None
    here = "the same as here" if is_read else None
    yield Check("clock", here, (skew,), "clock.begin", about="clock")


CHECKED = Checked({"time": _time}, of_server=("clock.",))

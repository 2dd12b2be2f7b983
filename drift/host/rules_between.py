"""Host rule between nodes: the same local time."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_node.drift.engine.nodes import Nodes
from gpu_node.drift.engine.rule import Fault, rule
from gpu_node.drift.engine.unlike import Text, faults
from gpu_node.facts.node import NodeState
from gpu_node.inventories.schema import NodeWanted


@rule(
    "host.timezone-differs",
    "info",
    compares=True,
    several=True,
    always=True,
    why="logs of the nodes have different times for the same moment; no job depends on it",
    manual="timedatectl set-timezone ZONE, such as UTC, on each node",
    alone="Export TZ=UTC in the shell of the launcher.",
)
def timezone_differs(state: NodeState, wanted: NodeWanted, nodes: Nodes) -> Iterator[Fault]:
    """Local time of the node has another offset than on the other nodes."""
    yield from faults(nodes, {"host.timezone": Text()})

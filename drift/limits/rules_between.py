"""Limits rule between nodes: a fresh session has the same limits on each."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_node.drift.engine.nodes import Nodes
from gpu_node.drift.engine.rule import Fault, rule
from gpu_node.drift.engine.unlike import Text, faults
from gpu_node.facts.node import NodeState
from gpu_node.inventories.schema import NodeWanted

_FIX = "name the limit in the inventory, and the deploy sets it: limits: "
_TEXTS = {
    "limits.nofile": Text(
        "a job ends in 'Too many open files' only on the node with the lowest limit",
        f"{_FIX}{{nofile: 131072}}",
    ),
    "limits.memlock": Text(
        "registering memory for the network fails only on the node with the lowest limit",
        f"{_FIX}{{memlock: unlimited}}",
    ),
    "limits.stack": Text(
        "the same program gets another stack on each node: threads fail on some nodes only",
        f"{_FIX}{{stack: 8M}}",
    ),
}


@rule(
    "limits.differs",
    "warning",
    compares=True,
    several=True,
    always=True,
    why="a job fails only on the node with the lowest limit",
    manual="name the limit in the inventory, and run the deploy",
    alone="Set the same limits on all nodes before the job (ulimit -n, -l, -s), at most the "
    "lowest hard limit.",
)
def differs(state: NodeState, wanted: NodeWanted, nodes: Nodes) -> Iterator[Fault]:
    """A fresh session of the node has other limits than on the other nodes."""
    yield from faults(nodes, _TEXTS)

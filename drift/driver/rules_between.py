"""Driver rule between nodes: all nodes of a job have the same driver."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_node.drift.engine.nodes import Nodes, Unlike
from gpu_node.drift.engine.rule import Fault, rule
from gpu_node.drift.engine.unlike import Text, fault
from gpu_node.facts.node import NodeState
from gpu_node.inventories.schema import NodeWanted

# What the report shows of a node that has no driver, and of one where it is not loaded.
NO_DRIVER = ("none", "not loaded")
_VERSION = "driver.version"


@rule(
    "driver.differs",
    ("error", "warning"),
    compares=True,
    several=True,
    always=True,
    why="the driver decides which CUDA and which NCCL features work: a job starts on some nodes "
    "and fails, or hangs, with the others",
    manual="install one driver on all nodes, and name its version in the inventory: driver: "
    '{version: "535.154.05"}',
    alone="Use a torch on all nodes that is built for the CUDA of the oldest driver.",
)
def differs(state: NodeState, wanted: NodeWanted, nodes: Nodes) -> Iterator[Fault]:
    """The node has another driver than the other nodes."""
    for each in nodes.unlike:
        if each.fact == _VERSION:
            # An inventory may be of nodes without GPUs, or of their SSH alone.
            is_warning = wanted.driver is None and not _are_versions(each)
            yield fault(each, each.fact, Text(severity="warning" if is_warning else None))


def _are_versions(unlike: Unlike) -> bool:
    """Whether the node has another version than a node beside it, or cannot be read."""
    versions = [value for value in unlike.values if value not in NO_DRIVER]
    return unlike.value is None or (unlike.value not in NO_DRIVER and len(versions) > 1)

"""Shared memory rule between nodes: size on nodes of one GPU model, mode on all nodes."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_node.drift.engine.nodes import Nodes
from gpu_node.drift.engine.rule import Fault, rule
from gpu_node.drift.engine.unlike import Text, faults
from gpu_node.facts.node import NodeState
from gpu_node.inventories.schema import NodeWanted

_FULL = "'Error while creating shared memory segment' on the node that has least"
_TEXTS = {
    "shm.size": Text(),
    "shm.fstab": Text(f"the next boot gives the nodes different sizes, and a job ends in {_FULL}"),
    "shm.mode": Text(
        "users can create shared memory segments on some nodes only",
        "chmod 1777 /dev/shm and chown root:root /dev/shm; with shm: {size: 8G} in the inventory "
        "the deploy does it",
    ),
}


@rule(
    "shm.differs",
    "warning",
    compares=True,
    several=True,
    always=True,
    why=f"a job that fits on one node ends in {_FULL}",
    manual="name the size in the inventory, and the deploy sets it: shm: {size: 8G}",
    alone="Choose NCCL_BUFFSIZE and the number of DataLoader workers for the smallest /dev/shm.",
)
def differs(state: NodeState, wanted: NodeWanted, nodes: Nodes) -> Iterator[Fault]:
    """/dev/shm has another size than on nodes of its GPU model, or another mode than elsewhere."""
    yield from faults(nodes, _TEXTS)

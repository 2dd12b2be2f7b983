"""NCCL rule between nodes: all nodes of a job have the same torch, and load the same NCCL."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_node.drift.engine.nodes import Nodes
from gpu_node.drift.engine.rule import Fault, rule
from gpu_node.drift.engine.unlike import Text, faults
from gpu_node.facts.node import NodeState
from gpu_node.inventories.schema import NodeWanted

_HANGS = (
    "a job across them hangs (before NCCL 2.23.4), or ends in 'Mismatched NCCL version detected'"
)
_TEXTS = {
    "nccl.torch": Text(
        f"each node loads the NCCL of its torch: {_HANGS}",
        "install the same torch in the environments of all nodes",
    ),
    "nccl.loaded": Text(
        f"the nodes have the same torch, but it loads another NCCL: {_HANGS}",
        "name one version in the inventory: nccl: {version: 2.18.1+cuda12.1}",
    ),
    "nccl.package": Text(
        "programs that use the system's libnccl (nccl-tests, MPI programs) load another version "
        f"on each node: {_HANGS}",
        "install one version on all nodes, or let the deploy do it: nccl: {packages: true}",
        "warning",
        "administrator",
    ),
}


@rule(
    "nccl.differs",
    ("error", "warning"),
    compares=True,
    several=True,
    always=True,
    stops="several",
    why="a job between such nodes hangs (before NCCL 2.23.4), or ends with 'Mismatched NCCL "
    "version detected'",
    manual="install the same torch and the same NCCL on all nodes",
)
def differs(state: NodeState, wanted: NodeWanted, nodes: Nodes) -> Iterator[Fault]:
    """The node has another torch, or another NCCL, than the other nodes."""
    yield from faults(nodes, _TEXTS)

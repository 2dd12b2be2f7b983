"""NCCL rule about Python environments that are not there, and can be had from another node."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_node.drift.engine.nodes import Nodes
from gpu_node.drift.engine.rule import Fault, rule
from gpu_node.drift.engine.subject import Prefix
from gpu_node.drift.nccl.environment_copy import hindrance, missing
from gpu_node.facts.node import NodeState
from gpu_node.inventories.schema import NodeWanted


@rule(
    "nccl.environment-missing",
    "error",
    between=True,
    step="nccl",
    stops="every",
    why="a job starts the same Python on every node, and ends on this one with 'No such file "
    "or directory'; its packages cannot be checked",
    manual="copy the environment from another node to the same path, or create it",
    repair="Copies the environment from the node that the inventory names (nccl: copy_from).",
)
def environment_missing(state: NodeState, wanted: NodeWanted, nodes: Nodes) -> Iterator[Fault]:
    """A Python environment of the inventory is not on the node."""
    nccl = wanted.nccl
    for prefix in missing(state, nccl):
        first = hindrance(state, nccl, prefix, nodes) if nccl else ""
        source = nccl.copy_from if nccl else None
        yield Fault(
            subject=Prefix(prefix),
            found="missing",
            wanted=f"as on {source}" if source and source != nodes.name else "a Python environment",
            fix=first
            if first is not None
            else f"copy it from {source} to the same path: a conda environment is "
            "complete; a venv also needs its base Python here, and its copy is removed if that "
            "does not run",
            fixable=first is None,
        )

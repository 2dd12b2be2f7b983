"""NCCL rules about Python environments that are missing, closed, or have a Python too old."""

from __future__ import annotations

from collections.abc import Iterator
from shlex import quote

from gpu_node.drift.engine.nodes import Nodes
from gpu_node.drift.engine.rule import Fault, rule
from gpu_node.drift.engine.subject import Prefix
from gpu_node.drift.nccl.environment_copy import hindrance, missing
from gpu_node.facts.nccl.state import NcclState
from gpu_node.facts.node import NodeState
from gpu_node.inventories.fields.paths import is_below
from gpu_node.inventories.schema import NcclWanted, NodeWanted


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


@rule(
    "nccl.environment-closed",
    "error",
    whole=True,
    always=True,
    stops="every",
    why="the ranks of this node end with 'Permission denied', or find no torch: a report reads an "
    "environment as its owner, and a job starts it as the training user",
    manual="create the environment, with its Python, where the training user can read it; or open "
    "what is closed to that user",
    alone="Create an environment in your home, and name that one in the inventory.",
)
def environment_closed(state: NodeState, wanted: NodeWanted) -> Iterator[Fault]:
    """The training user cannot start the Python of an environment, or read its torch."""
    user = state.env.user.name if state.env.user else "the training user"
    for each in state.env.closed or ():
        place, is_within = quote(each.place), is_below(each.place, [each.environment])
        yield Fault(
            subject=Prefix(each.environment),
            found=f"closed to {user}: {each.place} (mode {each.mode}, owner {each.owner})",
            wanted=f"an environment that {user} can use",
            fix=f"chmod -R a+rX {quote(each.environment)}"
            if is_within
            else f"create the environment, with its Python, where {user} can read it; or chmod a+x "
            f"{place}: every user may then pass through it, and not list it",
        )


@rule(
    "nccl.python-old",
    "error",
    always=True,
    stops="unknown",
    why="the packages of an environment are read by its own Python, from 3.6 on: which torch and "
    "NCCL a job gets there is not known, and no DeepSpeed and no torch after 1.4 runs on Python "
    "2.7",
    manual="create an environment with a newer Python, and name that one: nccl: {environments: "
    "[...]}",
)
def python_old(state: NcclState, wanted: NcclWanted) -> Iterator[Fault]:
    """The Python of an environment is too old: its packages are not read."""
    for prefix, version in state.old_pythons.items():
        yield Fault(
            subject=Prefix(prefix),
            found=f"not read: Python {version}",
            wanted="Python 3.6 or newer",
        )

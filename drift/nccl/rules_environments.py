"""NCCL rule about Python environments that are not there, and can be had from another node."""

from __future__ import annotations

from collections.abc import Iterator

from drift.among import Among
from drift.copied import hindrance, missing
from drift.rules.rule import Fault, rule
from facts.node import NodeState
from inventories.schema import NodeWanted


@rule("nccl.environment-missing", "error", between=True)
def environment_missing(found: NodeState, wanted: NodeWanted, among: Among) -> Iterator[Fault]:
    """A Python environment of the inventory is not on the node."""
    nccl = wanted.nccl
    for prefix in missing(found, nccl):
        first = hindrance(found, nccl, prefix, among) if nccl else ""
        source = nccl.copy_from if nccl else None
        yield Fault(
            subject=prefix,
            found="missing",
            wanted=f"as on {source}" if source and source != among.name else "a Python environment",
            cause="a job starts the same Python on every node, and ends on this one with 'No such "
            "file or directory'; nothing of its packages can be judged",
            fix=first
            if first is not None
            else f"copy it from {source} to the same path: a conda environment has all that it "
            "needs; one of venv needs the Python that it was made with here, too, and is taken "
            "away again where that does not run",
            fixable=first is None,
        )

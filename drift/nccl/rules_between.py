"""NCCL rule between nodes: all nodes of a job have the same torch, and load the same NCCL."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from gpu_node.drift.engine.compare import fault
from gpu_node.drift.engine.nodes import Nodes, Unlike
from gpu_node.drift.engine.rule import At, Fault, check
from gpu_node.drift.nccl.libnccl import loaded


@check("nccl.differs")
def differs(at: At) -> Iterator[Fault]:
    for each in at.nodes.unlike:
        if each.fact.row.rule == "nccl.differs":
            nccl = _same_nccl(each, at.nodes)
            starts = (
                f"the nodes load the same NCCL, {nccl}, and a job starts; a node with another "
                "torch may fail alone, or not read what another one saved"
            )
            made = fault(each)
            yield replace(made, cause=starts, severity="warning") if nccl else made


def _same_nccl(unlike: Unlike, nodes: Nodes) -> str:
    """Return the NCCL that nodes load whose torch differs; empty where it differs, or is unknown.

    The fact's name has the environment, where not all are compared at once.
    """
    fact, _, prefix = unlike.fact.name.partition(":")
    if fact != "nccl.torch" or unlike.value is None:
        return ""
    found = {
        loaded(each) if each and each.torch else ""
        for names in unlike.values.values()
        for name in names
        for folder, each in nodes.states[name].nccl.environments.items()
        if prefix in ("", folder)
    }
    return next(iter(found)) if len(found) == 1 else ""

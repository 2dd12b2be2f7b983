"""Peers: what the nodes of a run may not differ in, and no deploy can make equal, is told."""

from __future__ import annotations

from collections.abc import Mapping
from weakref import WeakSet

from pyinfra import logger
from pyinfra.api import State

from deploy.before import states
from drift.compare import differences
from drift.finding import Finding
from drift.report.visible import visible
from facts.node import NodeState

# torch itself is nobody's to change here, and each node's NCCL follows its own.
_COMPARED = "nccl.torch"
_HARM = (
    "each gets the NCCL of its own torch, and a job across them hangs or ends in 'Mismatched NCCL "
    "version detected'"
)
_told: WeakSet[State] = WeakSet()


def tell_apart(state: State) -> None:
    """Warn, once a run, where the nodes have more than one torch."""
    found = apart(states(state))
    if found is not None and state not in _told:
        _told.add(state)
        logger.warning(visible(f"nodes differ where they may not: {found.found}; {found.cause}"))


def apart(found: Mapping[str, NodeState]) -> Finding | None:
    """Return the finding that keeps a run from being right: nodes have more than one torch.

    `wanted` names each torch once.
    """
    told = {each.fact: each for each in differences(found, {})}.get(_COMPARED)
    if told is None or not told.certain:
        return None
    return Finding(
        rule="nccl.torch-differs",
        severity="error",
        subject="torch",
        found=", ".join(f"{name} {value}" for name, value in told.values.items()),
        wanted=f"one of {', '.join(sorted(set(told.values.values())))} on all nodes",
        cause=_HARM,
        fix="install one torch everywhere, and run again",
        fixable=False,
        step="nccl",
    )

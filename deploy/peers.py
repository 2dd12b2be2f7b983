"""Peers: what the nodes of a run may not differ in, and no deploy can make equal, is told."""

from __future__ import annotations

from weakref import WeakKeyDictionary

from pyinfra import logger
from pyinfra.api import Host, State

from drift.compare import differences
from drift.finding import Finding
from drift.report.visible import visible
from facts.node import NodeState

# torch itself is nobody's to change here, and each node's NCCL follows its own.
_TOLD = "nccl.torch"
_HARM = (
    "each gets the NCCL of its own torch, and a job across them hangs or ends in 'Mismatched NCCL "
    "version detected'"
)
_seen: WeakKeyDictionary[State, dict[str, NodeState]] = WeakKeyDictionary()


def tell_apart(host: Host, found: NodeState) -> None:
    """Note a node's state, and warn where its torch is another than that of a node before it."""
    before = apart(host.state)
    _seen.setdefault(host.state, {})[host.name] = found
    now = apart(host.state)
    if now is not None and (before is None or before.wanted != now.wanted):
        logger.warning(visible(f"nodes differ where they may not: {now.found}; {now.cause}"))


def apart(state: State) -> Finding | None:
    """Return the finding that keeps a run from being right: its nodes have more than one torch.

    `wanted` names each torch once.
    """
    told = {each.fact: each for each in differences(_seen.get(state, {}), {})}.get(_TOLD)
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

"""Peers: what the nodes of a run may not differ in, and no deploy can make equal, is told."""

from __future__ import annotations

from weakref import WeakKeyDictionary

from pyinfra import logger
from pyinfra.api import Host, State

from drift.compare import differences
from drift.report.visible import visible
from facts.node import NodeState

# torch itself is nobody's to change here, and each node's NCCL follows its own.
_TOLD = "nccl.torch"
_HARM = (
    "each gets the NCCL of its own torch, and a job across them hangs or ends in 'Mismatched NCCL "
    "version detected': install one torch everywhere"
)
_seen: WeakKeyDictionary[State, dict[str, NodeState]] = WeakKeyDictionary()


def tell_apart(host: Host, found: NodeState) -> None:
    """Warn where this node's torch is another than that of a node before it."""
    nodes = _seen.setdefault(host.state, {})
    before = {each.fact: each for each in differences(nodes, {})}
    nodes[host.name] = found
    after = {each.fact: each for each in differences(nodes, {})}
    now, then = after.get(_TOLD), before.get(_TOLD)
    if now is None or not now.certain:
        return
    if then is not None and set(then.values.values()) == set(now.values.values()):
        return
    each = ", ".join(f"{name} {value}" for name, value in now.values.items())
    said = f"nodes differ where they may not: {_TOLD}: {each}; {_HARM}"
    logger.warning(visible(said))

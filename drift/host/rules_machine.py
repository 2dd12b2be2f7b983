"""Host rule about the inventory itself: each name is a machine of its own."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from gpu_node.drift.engine.nodes import Nodes
from gpu_node.drift.engine.rule import At, Fault, check
from gpu_node.drift.engine.subject import Thing
from gpu_node.drift.ranges import ranges
from gpu_node.facts.host.one_machine import are_one
from gpu_node.facts.node import NodeState

_Machines = dict[tuple[str, str], list[str]]


@check("host.one-machine")
def one_machine(at: At) -> Iterator[Fault]:
    names = same_machine(at.node, at.nodes)
    if len(names) > 1:
        yield Fault(
            subject=Thing("inventory"),
            found=are_one(ranges(names)),
            wanted="a machine for each name",
        )


def same_machine(state: NodeState, nodes: Nodes) -> Sequence[str]:
    """Return the names of the inventory that are this node's machine, its own among them.

    Containers of one machine have its boot, but each another host name.
    """
    identity = _identity(state)
    alike = nodes.once(_machines).get(identity, ()) if all(identity) else ()
    names = {*alike, nodes.name}
    return [peer.name for peer in nodes.peers if peer.name in names]


def _machines(nodes: Nodes) -> _Machines:
    machines: _Machines = defaultdict(list)
    for peer in nodes.peers:
        if (state := nodes.states.get(peer.name)) is not None:
            machines[_identity(state)].append(peer.name)
    return machines


def _identity(state: NodeState) -> tuple[str, str]:
    own = state.host.name
    return (own.name, own.boot) if own else ("", "")

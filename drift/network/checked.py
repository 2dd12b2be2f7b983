"""What a pre-flight shows of the interface, and of the way to each node and back."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_node.drift.engine.nodes import Nodes
from gpu_node.drift.engine.preflight import Check, Checked
from gpu_node.drift.network.rules_newcomer import (
    interface_of,
    no_interface,
    route_to,
    route_wrong,
    way,
)
from gpu_node.drift.ssh.rules_newcomer import unreachable
from gpu_node.facts.node import NodeState
from gpu_node.inventories.schema import NodeWanted


def _ways(state: NodeState, wanted: NodeWanted, nodes: Nodes) -> Iterator[Check]:
    choice = interface_of(state, wanted, nodes)
    yield Check("interface", f"{choice.name}, {choice.why}", (no_interface,))
    for peer in nodes.others:
        yield _way(f"way to {peer.name}", state, peer.name)
        if peer.name in nodes.states:
            yield _way(f"way from {peer.name}", nodes.states[peer.name], nodes.name)


def _way(subject: str, state: NodeState, to: str) -> Check:
    route = route_to(to, state)
    shown = None if state.ssh.scans is None else way(route) if route else ""
    rules = (unreachable, route_wrong)
    return Check(subject, shown, rules, "ssh.scans", about=subject, needed=True)


CHECKED = Checked({"cluster": _ways}, of_server=("network.",), of_nodes=("network.",))

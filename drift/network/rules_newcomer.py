"""Network rules about newcomers: an interface for the jobs, and routes to the nodes and back."""

from collections.abc import Iterator

from gpu_node.drift.engine.nodes import Nodes
from gpu_node.drift.engine.rule import At, Fault, check, unknown
from gpu_node.drift.network.interfaces import AUTO, Choice, carrying, choose, is_never
from gpu_node.drift.ssh.rules_newcomer import way_from, way_to
from gpu_node.facts.network.state import Route
from gpu_node.facts.node import NodeState
from gpu_node.inventories.wanted import NetworkWanted, NodeWanted


def interface_of(state: NodeState, wanted: NodeWanted, nodes: Nodes) -> Choice:
    """Return the interface for jobs: the inventory's, or the one with the newcomer's address."""
    address = nodes.newcomer.address if nodes.newcomer else wanted.address
    return choose(state.network, wanted.network or NetworkWanted(interface=AUTO), address)


@check("network.no-interface")
def no_interface(at: At) -> Iterator[Fault]:
    choice = interface_of(at.node, at.wanted, at.nodes)
    if choice.name is None:
        yield Fault(
            subject="interface",
            found="none" if choice.known else "unknown",
            wanted="one with its address",
            cause=choice.why,
        )


@check("network.route-wrong")
def route_wrong(at: At) -> Iterator[Fault]:
    interface = interface_of(at.node, at.wanted, at.nodes).name
    address = at.newcomer.address if at.newcomer else at.wanted.address
    if interface not in carrying(at.node.network, address):
        interface = None  # The nodes' addresses are in another network than the jobs.
    for peer in at.nodes.others:
        if at.node.ssh.scans is not None and not [*way_to(peer.name, at.node, at.nodes)]:
            yield from _route(f"way to {peer.name}", at.node, peer.name, interface)
        state = at.of(peer.name)
        if state is not None and not [*way_from(peer.name, at.nodes)]:
            yield from _route(f"way from {peer.name}", state, at.nodes.name, None)


def route_to(name: str, state: NodeState) -> Route | None:
    """Return the route of a machine to another one, by its name."""
    return next((route for route in state.network.routes or () if route.node == name), None)


def way(route: Route) -> str:
    """Return a route as text: by eno1 from 192.0.2.12."""
    return f"by {route.device}" + (f" from {route.source}" if route.source else "")


def _route(subject: str, state: NodeState, to: str, interface: str | None) -> Iterator[Fault]:
    route = route_to(to, state)
    if state.network.routes is None:
        yield unknown(subject, state, "network.routes")
    elif route is None:
        yield _fault(subject, "unknown", "the routes do not show it")
    elif route.local:
        why = f"{route.address} is its own address: it would connect to itself"
        yield _error(subject, "to itself", why, "give one of them another address")
    elif route.device is None:
        yield _error(subject, "no route", "no interface leads there", "ip route add ...")
    elif is_never(route.device):
        why = "that interface is for containers or tunnels, and NCCL must not use it"
        fix = f"ip route get {route.address}: a subnet of containers covers it, change that"
        yield _fault(subject, way(route), why, fix)
    elif interface is not None and route.device != interface:
        why = f"NCCL would use {interface}, which has the server's address; this route does not"
        fix = f"ip route get {route.address}: correct the route, or onboard it by another address"
        yield _fault(subject, way(route), why, fix)


def _error(subject: str, found: str, why: str, fix: str) -> Fault:
    return Fault(subject, found, "a route to the other", why, fix)


def _fault(subject: str, found: str, why: str, fix: str = "") -> Fault:
    wanted = "a route by the interface for jobs"
    return Fault(subject, found, wanted, why, fix, severity="warning")

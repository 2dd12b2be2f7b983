"""Pre-flight of the network: the interface to train over, and the way to each node and back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gpu_node.drift.network.interfaces import AUTO, choose, is_never
from gpu_node.drift.preflight.row import Newcomer, Row, unknown
from gpu_node.facts.network.state import NetworkState, Route
from gpu_node.facts.preflight.reachability import MemberState, Scan
from gpu_node.facts.preflight.state import NewcomerState
from gpu_node.facts.probe.peers import Peer
from gpu_node.facts.ssh.state import fingerprint
from gpu_node.inventories.schema import NetworkWanted, NodeWanted


def judged(
    found: NewcomerState,
    members: Mapping[str, MemberState | str],
    newcomer: Newcomer,
    wanted: NodeWanted | None,
) -> Iterator[Row]:
    """Yield the rows about the network."""
    network = (wanted.network if wanted else None) or NetworkWanted(interface=AUTO)
    choice = choose(found.network, network, newcomer.address)
    if choice.name is None:
        shown = "none" if choice.known else "unknown"
        fix = "onboard it by an address that one of its interfaces has, or name one: network"
        yield Row("interface", shown, "warning", choice.why, fix)
    else:
        yield Row("interface", f"{choice.name}, {choice.why}")
    for peer in newcomer.nodes:
        state = members.get(peer.name, "not asked")
        yield _out(found, peer, newcomer, choice.name, isinstance(state, str))
        if not isinstance(state, str):
            yield _back(state, peer, newcomer)


def _out(
    found: NewcomerState, peer: Peer, newcomer: Newcomer, interface: str | None, is_silent: bool
) -> Row:
    """Return the row of the way to a node, which may be down: that does not stop the onboarding."""
    subject = f"way to {peer.name}"
    if found.scans is None:
        return unknown(subject, found.unreadable, "preflight.scans", "stop")
    keys = newcomer.pinned.get(peer.name, ())
    seen = _seen(subject, found.scans.get(peer.name), keys, f"{peer.name} at {peer.address}")
    route = _route(subject, found.network, found.unreadable, peer.name)
    if seen is not None:
        if is_silent and seen.found == "no answer":
            why = f"{peer.name} gave this machine no answer either"
            return Row(subject, seen.found, "warning", why, "run again when it answers")
        return seen
    if isinstance(route, Row):
        return route
    if interface is not None and route.device != interface and not is_never(route.device or ""):
        why = f"{newcomer.address} is on {interface}, which NCCL would use, but this route is not"
        fix = f"ip route get {peer.address}: correct the route, or onboard it by another address"
        return Row(subject, _shown(route), "warning", why, fix)
    return _by(subject, route)


def _back(state: MemberState, peer: Peer, newcomer: Newcomer) -> Row:
    subject = f"way from {peer.name}"
    if state.scans is None:
        return unknown(subject, state.unreadable, "preflight.scans", "stop")
    seen = _seen(
        subject,
        state.scans.get(newcomer.name),
        newcomer.host_keys,
        f"{newcomer.name} at {newcomer.address}",
    )
    if seen is not None:
        return seen
    route = _route(subject, state.network, state.unreadable, newcomer.name)
    return route if isinstance(route, Row) else _by(subject, route)


def _seen(subject: str, scan: Scan | None, pinned: tuple[str, ...], whom: str) -> Row | None:
    """Return the row of an sshd that is silent, or shows another key; None where all is right."""
    if scan is None or not scan.keys:
        why = scan.why if scan else "it was not asked"
        fix = "open TCP for sshd between them, both ways: firewall, security group, route"
        return Row(subject, "no answer", "stop", f"{whom}: {why}", fix)
    kinds = {key.split()[0] for key in pinned}
    same = [key for key in scan.keys if key.split()[0] in kinds]
    if not pinned:
        return Row(subject, "its host key is unknown", "warning", f"no key of {whom} is pinned")
    if not same:
        why = f"{whom} shows no key of a pinned kind: it may be another machine"
        return Row(subject, "its host key is unknown", "warning", why)
    wrong = [key for key in same if key not in pinned]
    if wrong:
        why = f"{whom} shows {fingerprint(wrong[0])} there, not the pinned "
        why += (
            f"{fingerprint(next(key for key in pinned if key.split()[0] == wrong[0].split()[0]))}"
        )
        fix = "find out who answers: two machines with one address, or a machine in between"
        return Row(subject, "another host key", "stop", why, fix)
    return None


def _route(
    subject: str, network: NetworkState, unreadable: Mapping[str, str], node: str
) -> Route | Row:
    """Return the way to a node, or the row of one that leads nowhere."""
    if network.routes is None:
        return unknown(subject, unreadable, "network.routes")
    route = next((each for each in network.routes if each.node == node), None)
    if route is None:
        return Row(subject, "unknown", "warning", "the routes do not show it")
    if route.local:
        why = f"{route.address} is its own address: it would connect to itself"
        return Row(subject, "to itself", "stop", why, "give one of them another address")
    if route.device is None:
        return Row(subject, "no route", "stop", "no interface leads there", "ip route add ...")
    return route


def _by(subject: str, route: Route) -> Row:
    if is_never(route.device or ""):
        why = "that interface is for containers or tunnels, and NCCL must not use it"
        fix = f"ip route get {route.address}: a subnet of containers covers it, change that"
        return Row(subject, _shown(route), "warning", why, fix)
    return Row(subject, _shown(route))


def _shown(route: Route) -> str:
    source = f" from {route.source}" if route.source else ""
    return f"by {route.device}{source}"

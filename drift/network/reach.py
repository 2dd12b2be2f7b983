"""Whether the interfaces at which the processes of a job listen reach each other."""

import ipaddress
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from gpu_node.drift.engine.finding import Severity
from gpu_node.drift.engine.nodes import Nodes, plain
from gpu_node.drift.network.interfaces import (
    AUTO,
    choose,
    is_down,
    is_local,
    link_of,
    subnet,
)
from gpu_node.facts.network.state import Link, NetworkState, Row
from gpu_node.facts.node import NodeState
from gpu_node.inventories.wanted import NetworkWanted

# Routes to so many nodes show whether an interface leads to the others.
_MOST_ROUTES = 16
_network = lru_cache(maxsize=1 << 12)(ipaddress.ip_network)


@dataclass(frozen=True)
class Ends:
    """The addresses at which processes of each node listen; those of a missing node are unknown."""

    of_node: Mapping[str, Sequence[str]]

    @cached_property
    def nodes_at(self) -> dict[object, set[str]]:
        """The nodes with an address, and with one in a subnet."""
        found: dict[object, set[str]] = {}
        for node, addresses in self.of_node.items():
            for each in addresses:
                found.setdefault(plain(each), set()).add(node)
                found.setdefault(subnet(each), set()).add(node)
        return {at: nodes for at, nodes in found.items() if at is not None}


def outward(state: NetworkState, name: str) -> list[str]:
    """Return the addresses of an interface that are not for this machine or this link alone."""
    named = (each for each in state.addresses or () if each.interface == name)
    return [each.address for each in named if each.scope == "global"]


def carriers(nodes: Nodes) -> dict[str, Link]:
    """Return each node's interface to train over: the inventory's, or that of its address.

    No rank of a job runs on a node without GPUs.
    """
    return {
        peer.name: link
        for peer in nodes.peers
        if peer.gpus != 0
        and (state := nodes.states.get(peer.name)) is not None
        and (link := link_of(state.network, _name_of(peer.interface, state, peer.address)))
    }


def ends_at(nodes: Nodes, interfaces: Callable[[str, NodeState], Iterable[str]]) -> Ends:
    """Return the ends at some interfaces of each node that was asked."""
    at = {
        name: [each for own in interfaces(name, state) for each in outward(state.network, own)]
        for name, state in nodes.states.items()
    }
    return Ends({name: found for name, found in at.items() if found})


def managed_ends(nodes: Nodes) -> Ends:
    """Return the ends at the interfaces that the inventory names, or lets `auto` choose."""
    links = nodes.once(carriers)
    managed = {peer.name for peer in nodes.peers if peer.interface} & links.keys()
    return ends_at(nodes, lambda name, _: [links[name].name] if name in managed else [])


def unreached(node: str, state: NetworkState, name: str, ends: Ends) -> tuple[str, Severity] | None:
    """Return why the others do not reach a node at an interface; None: they do, or it is unknown.

    The routes of a tunnel may be in tables that were not read.
    """
    link, own = link_of(state, name), outward(state, name)
    if link is None or state.addresses is None or link.kind == "tun":
        return None
    if is_local(state, name):
        return "no way to another machine", "error"
    if not own:
        return "no address that another machine reaches", "error"
    # A virtual address behind it may be on each node; processes listen on the first.
    if same := ends.nodes_at.get(plain(own[0]), set()) - {node}:
        return f"{plain(own[0])}, which {_listed(same)} has too", "error"
    near = {node}.union(*(ends.nodes_at.get(subnet(each), ()) for each in own))
    if state.table is None or is_down(link):
        return None
    apart = [each for each in ends.of_node if each not in near][:_MOST_ROUTES]
    by = {each: _route(state.table, name, own, ends.of_node[each]) for each in apart}
    if none := [each for each, device in by.items() if device == ""]:
        return f"{own[0]}, without a route to {_listed(none)}", "error"
    if other := [each for each, device in by.items() if device not in (None, name)]:
        return f"{own[0]}; the route to {_listed(other)} takes {by[other[0]]}", "warning"
    return None


def _route(table: Sequence[Row], name: str, own: Sequence[str], there: Sequence[str]) -> str | None:
    """Return the interface that leads to another node, this one before others.

    Empty where there is no route; None where it is unknown, as of IPv6.
    """
    if any(":" in each for each in own) and any(":" in each for each in there):
        return None
    devices = [_device(table, plain(each)) for each in there if ":" not in each]
    return name if name in devices else next(iter(devices), None)


def _device(table: Sequence[Row], address: str) -> str:
    ip = ipaddress.ip_address(address)
    rows = [(net.prefixlen, row.device) for row in table if ip in (net := _network(row.network))]
    return max(rows, key=lambda row: row[0])[1] if rows else ""


def _name_of(interface: str, state: NodeState, address: str) -> str | None:
    return choose(state.network, NetworkWanted(interface=interface or AUTO), address).name


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)[:8])

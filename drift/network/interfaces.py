"""Which interface a node should train over, and which NCCL takes for a value or by itself."""

import ipaddress
import re
from dataclasses import dataclass
from functools import lru_cache

from gpu_node.facts.network.state import Link, NetworkState
from gpu_node.inventories.wanted import NetworkWanted

AUTO = "auto"
# Made for containers, virtual machines and tunnels: never chosen, whatever address they carry.
_NEVER = re.compile(
    r"lo|(docker|virbr|br-|veth|cni|cali|flannel|podman|lxc|lxdbr|kube|tailscale|zt).*", re.DOTALL
)
# NCCL's own exceptions from what it takes by itself, the last one since 2.28.3.
_SPARED, _SPARED_SINCE, RUNNING_SINCE = ("docker", "lo"), ("virbr",), (2, 28, 3)
Version = tuple[int, ...]


@dataclass(frozen=True)
class Choice:
    """The interface to train over; `name` is None where there is none, `why` says how it came.

    It is not `known` where what could not be read might change it.
    """

    name: str | None
    why: str
    known: bool = True


def is_never(name: str) -> bool:
    """Whether an interface leads to no other machine by its name."""
    return _NEVER.fullmatch(name) is not None


def is_local(state: NetworkState, name: str) -> bool:
    """Whether an interface is for this machine alone: loopback, or a bridge without a card."""
    link = link_of(state, name)
    if link is None or link.kind not in ("loopback", "bridge"):
        return False
    cards = {"physical", "bond", "vlan"}
    return is_never(name) and not any(port.kind in cards for port in ports_of(link, state))


def choose(state: NetworkState, wanted: NetworkWanted, address: str) -> Choice:
    """Return the interface for a node that the others know by `address`."""
    if state.links is None or state.addresses is None:
        return Choice(None, "the interfaces could not be read", known=False)
    if wanted.interface != AUTO:
        if not any(link.name == wanted.interface for link in state.links):
            return Choice(None, f"there is no interface {wanted.interface}")
        if is_local(state, wanted.interface):
            return Choice(None, f"{wanted.interface} leads to no other machine")
        return Choice(wanted.interface, "the inventory names it")
    carriers = carrying(state, address)
    fit = [name for name in carriers if not is_never(name)]
    if fit:
        return Choice(fit[0], f"it has {address}")
    if carriers:
        return Choice(None, f"{carriers[0]} has {address}, but leads to no other machine")
    return _by_routes(state, address)


def _by_routes(state: NetworkState, address: str) -> Choice:
    """The interface that leads to all other nodes, where the address is on none: NAT, or a name."""
    if state.routes is None:
        return Choice(None, "the routes could not be read", known=False)
    others = [route for route in state.routes if not route.local and route.device]
    if any(route.device is None and not route.local for route in state.routes):
        return Choice(None, f"no interface has {address}, and there is no route to some nodes")
    devices = {route.device for route in others if route.device}
    if len(devices) == 1 and not is_never(name := devices.pop()):
        return Choice(name, "it leads to every other node")
    many = "the routes to the other nodes use several" if devices else "no route shows one"
    return Choice(None, f"no interface has {address}, and {many}")


def carrying(state: NetworkState, address: str) -> list[str]:
    """Return the interfaces that carry an address; none where it is a name."""
    ip = _ip(address)
    if ip is None:
        return []
    return [each.interface for each in state.addresses or () if _ip(each.address) == ip]


@lru_cache(maxsize=1 << 14)
def _ip(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_interface(text).ip
    except ValueError:
        return None


def is_down(link: Link) -> bool:
    """Whether nothing goes through an interface; an unknown state is none of being down."""
    return not link.up or link.state in ("down", "lowerlayerdown", "notpresent")


def link_of(state: NetworkState, name: str | None) -> Link | None:
    """Return an interface by its name."""
    return next((link for link in state.links or () if link.name == name), None)


def ports_of(link: Link, network: NetworkState) -> list[Link]:
    """Return the interfaces that a bond or a bridge is made of."""
    return [each for each in network.links or () if each.name in link.ports]


def sharing(state: NetworkState, name: str) -> list[tuple[str, str]]:
    """Return the other interfaces with an address in a subnet of this one's, each with that."""
    own = [address for address in state.addresses or () if address.interface == name]
    subnets = {net for each in own if (net := subnet(each.address)) is not None}
    others = [address for address in state.addresses or () if address.interface != name]
    return [
        (other.interface, str(net))
        for other in others
        if (net := subnet(other.address)) in subnets and not is_never(other.interface)
    ]


@lru_cache(maxsize=1 << 14)
def subnet(address: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    """The subnet that an address opens; none of a link-local one, which every interface has."""
    net = ipaddress.ip_interface(address).network
    return None if net.is_link_local or net.num_addresses == 1 else net


def candidates(state: NetworkState, version: Version | None = None) -> list[str]:
    """Return the interfaces that NCCL looks at: those with an address, later those that run."""
    names = dict.fromkeys(address.interface for address in state.addresses or ())
    if version is None or version < RUNNING_SINCE:
        return list(names)
    down = {link.name for link in state.links or () if is_down(link)}
    return [name for name in names if name not in down]


def is_unset(value: str | None) -> bool:
    """Whether NCCL takes a value for none: an empty one, or one of a single character."""
    return value is None or len(value) < 2


def selected(value: str, names: list[str]) -> list[str]:
    """Return the interfaces that NCCL takes for a value of NCCL_SOCKET_IFNAME, or of NCCL_IB_HCA.

    A list of prefixes; `=` in front makes them whole names, `^` excludes. Nothing is trimmed. An
    entry may name a port: a port of InfiniBand is DEVICE:PORT (NCCL, src/misc/utils.cc).
    """
    rest = value
    excluding, rest = rest.startswith("^"), rest.removeprefix("^")
    exact, rest = rest.startswith("="), rest.removeprefix("=")
    listed = [f"{each}:".split(":") for each in rest.split(",") if each]

    def matches(name: str) -> bool:
        device, port, *_ = f"{name}:".split(":")
        return any(
            (device == each if exact else device.startswith(each)) and named in ("", port)
            for each, named, *_ in listed
        )

    return [name for name in names if matches(name) != excluding]


def by_itself(state: NetworkState, version: Version | None) -> list[str]:
    """Return what NCCL takes where nothing is set."""
    names = candidates(state, version)
    spared: tuple[str, ...] = _SPARED
    if version is not None and version >= RUNNING_SINCE:
        spared += _SPARED_SINCE
    infiniband = [name for name in names if name.startswith("ib")]
    others = [name for name in names if not name.startswith(spared)]
    return infiniband or others or names

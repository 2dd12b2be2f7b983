"""Network: the interfaces of a node with their addresses, and its routes to the cluster's nodes."""

import ipaddress
from collections.abc import Sequence
from typing import Literal, get_args

from gpu_node.facts.probe import checked
from gpu_node.facts.probe.base import AreaFact, Parsers, State
from gpu_node.facts.probe.lines import lines_of
from gpu_node.facts.probe.peers import Peer, spread
from gpu_node.facts.probe.protocol import Section, Unreadable
from gpu_node.facts.probe.readers import Columns
from gpu_node.facts.probe.request import ProbeRequest
from gpu_node.facts.probe.shell import assigned, shell

# Bit of IFF_UP in an interface's flags (net/if.h).
_IFF_UP = 0x1
ROUTES_TO = shell("network/routes_to")


Kind = Literal["physical", "virtual", "bond", "bridge", "vlan", "tun", "loopback"]
# Routes to so many nodes show which interface leads to the others.
_MOST_ROUTES = 16
# A machine with a longer table is a router.
_MOST_ROWS = 1024


def sections(request: ProbeRequest) -> tuple[Section, ...]:
    """Return the sections about the network; a newcomer has its routes to all nodes read."""
    most = max(len(request.nodes), 1) if request.joining else _MOST_ROUTES
    return (
        Section("network.links", shell("network/links", most=_MOST_ROWS), light=True),
        Section("network.addresses", shell("network/addresses"), light=True),
        Section("network.routes", _routes(spread(request.nodes, most)), light=True),
    )


def _routes(nodes: Sequence[Peer]) -> str:
    rows = assigned(asked="\n".join(f"{node.name} {node.address}" for node in nodes))
    return rows + ROUTES_TO + shell("network/routes") if nodes else ":"


_MOST_LINES = 4096


class Link(State):
    """An interface: `up` is the administrative state, `state` the operational one (operstate).

    `speed` is in Mbit/s, None if the driver does not report it. `ports` are the interfaces that a
    bond or a bridge is made of; `one_port`: only one of them carries what goes to another node.
    """

    name: str
    up: bool
    state: str
    mtu: int | None
    speed: int | None
    kind: Kind
    ports: tuple[str, ...] = ()
    one_port: bool = False


class Address(State):
    """An address of an interface with its prefix, such as 10.0.0.4/24."""

    interface: str
    address: str
    scope: str


class Route(State):
    """The route to a node of the cluster; `local`: it leads to the node itself.

    `address` is None if its name does not resolve, `device` if there is no route.
    """

    node: str
    address: str | None
    device: str | None
    source: str | None
    local: bool


class Row(State):
    """A row of the main table of IPv4: a network, and the interface that leads there."""

    network: str
    device: str


# Of the table of one port: mlx5 has 255.
_MOST_GIDS = 1023


class HcaPort(State):
    """A port of InfiniBand or RoCE (mlx5_0/1), its state (ACTIVE, DOWN, INIT), and its layer.

    `gids` are the indexes at which a port of RoCE has a GID.
    """

    name: str
    state: str
    layer: str
    gids: tuple[str, ...] = ()

    @property
    def is_active(self) -> bool:
        """Whether NCCL uses it."""
        return self.state == "ACTIVE"


def _indexes(text: str) -> tuple[str, ...]:
    return tuple(str(checked.number(each, _MOST_GIDS)) for each in text.split())


_HCA_PORT = Columns(HcaPort, "name state layer gids...", " ", name=checked.hca_port, gids=_indexes)


class NetworkState(State):
    """Everything about the network that rules use.

    `infiniband`: one of the `hca_ports` is active, which NCCL takes first; read with links, as
    `table` is, the main one of IPv4. `strict` are the interfaces on which the kernel drops what
    comes from an address that it would reach by another one.
    """

    links: tuple[Link, ...] | None
    addresses: tuple[Address, ...] | None
    routes: tuple[Route, ...] | None
    infiniband: bool | None = None
    table: tuple[Row, ...] | None = None
    hca_ports: tuple[HcaPort, ...] | None = None
    strict: tuple[str, ...] | None = None


def parse_links(text: str) -> tuple[object, ...]:
    """Parse `NAME FLAGS STATE MTU SPEED KIND`; a speed of -1 or - is unknown.

    Then follow `=strict NAME`, `=ports NAME MODE PORT...` for bonds and bridges, `=hca DEVICE/PORT
    STATE LAYER GID...` for ports of InfiniBand and RoCE, and `=route NAME NETWORK MASK`, the header
    first.
    """
    lines = _few(text)
    ports = {row[1]: row[2:] for row in map(str.split, lines) if row[0] == "=ports"}
    links = [_link(line) for line in lines if not line.startswith("=")]
    made = tuple(link.model_copy(update=_made_of(ports.get(link.name, ()))) for link in links)
    routes = [line.split()[1:] for line in lines if line.startswith("=route ")]
    hca = tuple(_HCA_PORT.row(line[5:]) for line in lines if line.startswith("=hca "))
    strict = tuple(line[8:] for line in lines if line.startswith("=strict "))
    return made, any(port.is_active for port in hca), _table(routes), hca, strict


def _table(rows: Sequence[Sequence[str]]) -> tuple[Row, ...] | None:
    """Return the table; None where it was not read, or is too long. What is refused has no name."""
    if not rows or rows[-1][0] == "many":
        return None
    return tuple(_row(*row) for row in rows[1:] if row[0] != "*")


def _row(device: str, to: str, mask: str) -> Row:
    network, bits = (int.from_bytes(bytes.fromhex(each), "little") for each in (to, mask))
    known = ipaddress.IPv4Network((network, bits.bit_count()))
    return Row(device=checked.interface(device), network=str(known))


def _made_of(words: Sequence[str]) -> dict[str, object]:
    if not words:
        return {}
    ports = tuple(map(checked.interface, words[1:]))
    return {"ports": ports, "one_port": words[0] in ("active-backup", "bridge")}


def _few(text: str) -> list[str]:
    """Return the lines with words; at most as many as a machine with containers may have."""
    lines = [line for line in lines_of(text) if line.strip()]
    if len(lines) > _MOST_LINES:
        raise Unreadable(f"{len(lines)} lines, more than {_MOST_LINES}")
    return lines


def _link(line: str) -> Link:
    name, flags, state, mtu, speed, kind = line.split()
    if kind not in get_args(Kind):
        raise ValueError(f"unknown kind of interface: {kind!r}")
    known = {"mtu": _positive(mtu), "speed": _positive(speed)}
    up = bool(int(flags, 16) & _IFF_UP)
    return Link.model_validate(
        {"name": checked.interface(name), "up": up, "state": state, "kind": kind, **known}
    )


def _positive(text: str) -> int | None:
    return int(text) if text.isdecimal() and int(text) > 0 else None


def parse_addresses(text: str) -> tuple[Address, ...]:
    """Parse lines of `ip -o addr`: index, name, family, address, then words and their values."""
    rows = [line.replace("\\", " ").split() for line in _few(text)]
    return tuple(_address(row) for row in rows if row[2] in ("inet", "inet6"))


def _address(row: list[str]) -> Address:
    name, own = row[1].partition("@")[0].rstrip(":"), row[3]
    # For a point-to-point interface the prefix is after the address of the other end.
    prefix = "" if "/" in own else "/128" if row[2] == "inet6" else "/32"
    scope = row[row.index("scope") + 1] if "scope" in row else "global"
    address = checked.with_prefix(own + prefix)
    return Address(interface=checked.interface(name), address=address, scope=scope)


def parse_routes(text: str) -> tuple[Route, ...]:
    """Parse `NODE ADDRESS`, then the output of `ip -o route get` for it."""
    return tuple(_route(line.split()) for line in lines_of(text) if line.strip())


def _route(row: list[str]) -> Route:
    node, address, *words = row
    local = words[:1] == ["local"]
    device, source = None if local else _after(words, "dev"), _after(words, "src")
    if address != "-":
        checked.address(address)
    return Route(
        node=node,
        address=None if address == "-" else address,
        device=device and checked.interface(device),
        source=source and checked.address(source),
        local=local,
    )


def _after(words: list[str], word: str) -> str | None:
    return words[words.index(word) + 1] if word in words[:-1] else None


PARSERS: Parsers = {
    "network.links": ("links infiniband table hca_ports strict", parse_links),
    "network.addresses": ("addresses", parse_addresses),
    "network.routes": ("routes", parse_routes),
}


class Network(AreaFact):
    """Returns `NetworkState` as a dict: {"links": [{"name": "eno1", "mtu": 1500, ...}], ...}."""

    sections_for = staticmethod(sections)
    state = NetworkState
    parsers = PARSERS

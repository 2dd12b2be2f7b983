"""Network: the interfaces of a node with their addresses, and its routes to the cluster's nodes."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Literal, get_args

from typing_extensions import override

from facts.area import AreaFact, State
from facts.cluster import Peer
from facts.kernels import SBIN
from facts.named import Named
from facts.probe import Readings, Section

# Bit of IFF_UP in an interface's flags (net/if.h).
_IFF_UP = 0x1

# /sys/class/net holds files as well (bonding_masters); many drivers refuse to tell a speed.
_LINKS = r"""
[ -d /sys/class/net ] || { echo 'no /sys/class/net'; exit 1; }
for link in /sys/class/net/*; do
  [ -e "$link/flags" ] || continue
  state=unknown mtu=- speed=-
  read -r flags 2>/dev/null <"$link/flags" || continue # it went away meanwhile
  { read -r state <"$link/operstate"; read -r mtu <"$link/mtu"
    read -r speed <"$link/speed"; } 2>/dev/null
  kind=virtual
  [ ! -e "$link/device" ] || kind=physical
  [ ! -e "$link/tun_flags" ] || kind=tun
  [ ! -d "$link/bridge" ] || kind=bridge
  [ ! -d "$link/bonding" ] || kind=bond
  ! grep -q '^DEVTYPE=vlan$' "$link/uevent" 2>/dev/null || kind=vlan
  [ "${link##*/}" != lo ] || kind=loopback
  echo "${link##*/} $flags $state ${mtu:--} ${speed:--} $kind"
done
"""
# In the form that iproute2 4.11 (CentOS 7) and busybox have as well; a user's PATH may lack sbin.
_ADDRESSES = f"""{SBIN}
command -v ip >/dev/null 2>&1 ||
  {{ echo 'ip is not installed: its package is iproute2, or iproute'; exit 1; }}
ip -o addr show"""
_ROUTE = rf"""{SBIN}
route_to() {{
  address=$2
  case $address in
    *:*) ;;
    *[!0-9.]*) address=$(getent ahosts "$address" 2>/dev/null | sed -n '1s/[[:space:]].*//p') ;;
  esac
  [ -n "$address" ] || {{ echo "$1 - no address"; return; }}
  echo "$1 $address $(ip -o route get "$address" 2>&1 | head -n 1)"
}}
"""

Kind = Literal["physical", "virtual", "bond", "bridge", "vlan", "tun", "loopback"]


def sections(named: Named) -> tuple[Section, ...]:
    """Return the sections about the network; routes are asked to the nodes that are named."""
    return (
        Section("network.links", _LINKS),
        Section("network.addresses", _ADDRESSES),
        Section("network.routes", _ROUTE + "\n".join(map(_call, named.nodes))),
    )


def _call(node: Peer) -> str:
    return f"route_to {shlex.quote(node.name)} {shlex.quote(node.address)}"


class Link(State):
    """An interface: `up` is what an administrator said, `state` what became of it (operstate).

    `speed` is in Mbit/s, None where the driver does not tell it.
    """

    name: str
    up: bool
    state: str
    mtu: int | None
    speed: int | None
    kind: Kind


class Address(State):
    """An address of an interface with its prefix, as in 10.0.0.4/24."""

    interface: str
    address: str
    scope: str


class Route(State):
    """The way to a node of the cluster; `local` is one to the node itself.

    `address` is None where its name does not resolve, `device` where no route leads there.
    """

    node: str
    address: str | None
    device: str | None
    source: str | None
    local: bool


class NetworkState(State):
    """Everything about the network that a rule asks for."""

    links: tuple[Link, ...] | None
    addresses: tuple[Address, ...] | None
    routes: tuple[Route, ...] | None


def parse_links(text: str) -> tuple[Link, ...]:
    """Parse `NAME FLAGS STATE MTU SPEED KIND`; a speed of -1 or - is not known."""
    return tuple(_link(line) for line in text.splitlines() if line.strip())


def _link(line: str) -> Link:
    name, flags, state, mtu, speed, kind = line.split()
    if kind not in get_args(Kind):
        raise ValueError(f"{kind!r} is no kind of interface")
    known = {"mtu": _positive(mtu), "speed": _positive(speed)}
    up = bool(int(flags, 16) & _IFF_UP)
    return Link.model_validate({"name": name, "up": up, "state": state, "kind": kind, **known})


def _positive(text: str) -> int | None:
    return int(text) if text.isdecimal() and int(text) > 0 else None


def parse_addresses(text: str) -> tuple[Address, ...]:
    """Parse lines of `ip -o addr`: index, name, family, address, then words and their values."""
    rows = [line.replace("\\", " ").split() for line in text.splitlines() if line.strip()]
    return tuple(_address(row) for row in rows if row[2] in ("inet", "inet6"))


def _address(row: list[str]) -> Address:
    name, own = row[1].partition("@")[0].rstrip(":"), row[3]
    # Of a point-to-point interface the prefix stands behind the other end's address.
    prefix = "" if "/" in own else "/128" if row[2] == "inet6" else "/32"
    scope = row[row.index("scope") + 1] if "scope" in row else "global"
    return Address(interface=name, address=own + prefix, scope=scope)


def parse_routes(text: str) -> tuple[Route, ...]:
    """Parse `NODE ADDRESS`, then what `ip -o route get` says of it."""
    return tuple(_route(line.split()) for line in text.splitlines() if line.strip())


def _route(row: list[str]) -> Route:
    node, address, *said = row
    local = said[:1] == ["local"]
    return Route(
        node=node,
        address=None if address == "-" else address,
        device=None if local else _after(said, "dev"),
        source=_after(said, "src"),
        local=local,
    )


def _after(words: list[str], word: str) -> str | None:
    return words[words.index(word) + 1] if word in words[:-1] else None


def parse(readings: Readings) -> NetworkState:
    """Return the area's state from the probe's answers."""
    return NetworkState(
        links=readings.take("network.links", parse_links),
        addresses=readings.take("network.addresses", parse_addresses),
        routes=readings.take("network.routes", parse_routes),
    )


SECTIONS = sections(Named())


class Network(AreaFact):
    """Returns `NetworkState` as a dict: {"links": [{"name": "eno1", "mtu": 1500, ...}], ...}."""

    sections = SECTIONS
    parse = staticmethod(parse)

    @override
    def sections_for(self, named: Named) -> Sequence[Section]:
        return sections(named)

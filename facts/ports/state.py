"""PortsState: the firewall of a node, and how its connections to ports of other nodes ended."""

import re
from typing import Literal

from pydantic import Field

from gpu_node.facts.probe import checked
from gpu_node.facts.probe.base import AreaFact, Parsers, State
from gpu_node.facts.probe.protocol import Section
from gpu_node.facts.probe.readers import Columns, by_word
from gpu_node.facts.probe.shell import SBIN, shell

SECTIONS = (Section("ports.firewall", SBIN + shell("ports/firewall"), root=True, light=True),)
# What a connection carries: a message that fits into any packet, and a large one.
SMALL, LARGE = 512, 256 * 1024
# "dropped": no answer; "rejected": no route to host; "reset": refused, though the peer listens.
# "unknown" never counts as open.
Outcome = Literal["open", "dropped", "rejected", "reset", "unknown"]
_NAME = checked.Form("the name of a chain", re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,63}"))


class Chain(State):
    """A chain of a hook that drops or rejects packets: its family, table and name.

    Those of iptables are in the tables `ip filter` and `ip6 filter`.
    """

    hook: Literal["input", "output"]
    family: Literal["ip", "ip6", "inet", "arp", "bridge", "netdev"]
    table: str
    name: str


class Firewall(State):
    """What filters packets; `zones` of firewalld by interface, - for all others.

    `closed`: the rules cannot be read, as without root.
    """

    tools: tuple[Literal["firewalld", "ufw"], ...] = ()
    zones: dict[str, str] = Field(default_factory=dict)
    chains: tuple[Chain, ...] = ()
    closed: bool = False


class Tried(State):
    """How connections to the low, the middle and the high port of a node ended.

    `large`: whether a large message passed where a small one did; None: unknown. `why` says what is
    unknown.
    """

    ports: tuple[Outcome, Outcome, Outcome]
    large: bool | None = None
    why: str = ""


class PortsState(State):
    """The firewall, and what the nodes tried together.

    `tried` has the other nodes by name; None where nothing was tried, and `untried` says why, ""
    where it was not to be. The others connected to `address`, in the ports `first` to `last`, from
    which the node's kernel chooses. `interface` is that of the address.
    """

    firewall: Firewall | None
    tried: dict[str, Tried] | None = None
    untried: str = ""
    address: str = ""
    interface: str = ""
    first: int = 0
    last: int = 0


_CHAIN = Columns(Chain, "hook family table name", " ", table=_NAME, name=_NAME)


def parse_firewall(text: str) -> Firewall:
    """Parse lines of a word and its values."""
    rows = by_word(text, words="tool zone chain closed")
    zones = (line.split(" ") for line in rows["zone"])
    return Firewall.model_validate(
        {
            "tools": tuple(rows["tool"]),
            "zones": {
                name if name == "-" else checked.interface(name): _NAME(zone)
                for name, zone in zones
            },
            "chains": tuple(map(_CHAIN.row, rows["chain"])),
            "closed": bool(rows["closed"]),
        }
    )


PARSERS: Parsers = {"ports.firewall": ("firewall", parse_firewall)}


class Ports(AreaFact):
    """Returns `PortsState` as a dict: {"firewall": {"tools": ["ufw"], ...}, ...}."""

    sections = SECTIONS
    state = PortsState
    parsers = PARSERS

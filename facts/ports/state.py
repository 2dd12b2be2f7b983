"""PortsState: the firewall of a node, and how its connections to ports of other nodes ended."""

import re
from typing import Any, Literal

from pydantic import Field

from gpu_node.facts.probe import checked
from gpu_node.facts.probe.base import AreaFact, Parsers, State
from gpu_node.facts.probe.protocol import Section
from gpu_node.facts.probe.readers import by_word, lines
from gpu_node.facts.probe.shell import SBIN, shell

# Lines `ZONE ADDRESS` of the rules that the deploy has added to firewalld.
RECORD = "/var/lib/gpu-node/firewall"
SECTIONS = (
    Section("ports.firewall", SBIN + shell("ports/firewall"), root=True, light=True),
    Section("ports.trusted", f"[ ! -e {RECORD} ] || cat {RECORD}", light=True),
)
# "dropped": no answer; "reset": refused, though the peer listens. What ICMP says is by its error:
# "rejected" no route to host, "unreachable" its network, "prohibited" of IPv6, permission denied.
# "unknown" never counts as open.
Outcome = Literal["open", "dropped", "rejected", "unreachable", "prohibited", "reset", "unknown"]
_WORD = r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,63}"
_ZONE = checked.Form("an interface and its zone", re.compile(rf"([\w.:@+-]{{1,15}}) ({_WORD})"))
_CHAIN = checked.Form(
    "family, table and name of a chain",
    re.compile(rf"(ip|ip6|inet|netdev|bridge|arp) {_WORD} {_WORD}"),
)
TRUSTED = checked.Form("a zone and an address", re.compile(rf"{_WORD} [0-9a-fA-F.:]{{2,45}}"))


class Firewall(State):
    """What filters packets: the chains that drop or reject, each as family, table and name.

    Those of iptables are in the tables `ip filter` and `ip6 filter`. `zones` are firewalld's by
    interface, - for all others. `closed`: the rules cannot be read, as without root.
    """

    tools: tuple[Literal["firewalld", "ufw"], ...] = ()
    zones: dict[str, str] = Field(default_factory=dict)
    input: tuple[str, ...] = ()
    output: tuple[str, ...] = ()
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
    which the node's kernel chooses. `interface` is that of the address. `trusted` has zone and
    address of each rule that the deploy has added to firewalld.
    """

    firewall: Firewall | None
    trusted: tuple[str, ...] | None = ()
    tried: dict[str, Tried] | None = None
    untried: str = ""
    address: str = ""
    interface: str = ""
    first: int = 0
    last: int = 0


def parse_firewall(text: str) -> Firewall:
    """Parse lines of a word and its values."""
    rows = by_word(text, words="tool zone input output closed")
    found: dict[str, Any] = {"zones": dict(_ZONE(each).split() for each in rows["zone"])}
    found |= {hook: tuple(sorted(map(_CHAIN, rows[hook]))) for hook in ("input", "output")}
    found |= {"tools": tuple(rows["tool"]), "closed": bool(rows["closed"])}
    return Firewall.model_validate(found)


def parse_trusted(text: str) -> tuple[str, ...]:
    """Parse lines of a zone and an address."""
    return tuple(map(TRUSTED, lines(text)))


PARSERS: Parsers = {
    "ports.firewall": ("firewall", parse_firewall),
    "ports.trusted": ("trusted", parse_trusted),
}


class Ports(AreaFact):
    """Returns `PortsState` as a dict: {"firewall": {"tools": ["ufw"], ...}, ...}."""

    sections = SECTIONS
    state = PortsState
    parsers = PARSERS

"""A row of the pre-flight: what was looked at, what was found, and whether it may go on."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from gpu_node.facts.probe.peers import SSH_PORT, Peer

Verdict = Literal["ok", "warning", "stop"]


@dataclass(frozen=True)
class Row:
    """A line of the table; `why` and `fix` are sentences, empty where all is right."""

    subject: str
    found: str
    verdict: Verdict = "ok"
    why: str = ""
    fix: str = ""


@dataclass(frozen=True)
class Newcomer:
    """A server as it is to be called: its name, its address, and what is known of it beforehand.

    `addresses` are what `address` stands for, which is itself where it is no name. `group` is the
    one that was given, `host_keys` those that were accepted. `nodes` are the cluster's other ones,
    `pinned` their host keys by name; keys are as in known_hosts: type and key. `here` is what this
    machine's resolver says of the name (None: no answer), and `asked` and `answered` are this
    machine's clock, in seconds since 1970, around the probe.
    """

    name: str
    address: str
    port: int = SSH_PORT
    addresses: tuple[str, ...] = ()
    group: str | None = None
    host_keys: tuple[str, ...] = ()
    nodes: tuple[Peer, ...] = ()
    pinned: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    here: tuple[str, ...] | None = ()
    asked: float = 0
    answered: float = 0

    def is_at(self, address: str) -> bool:
        """Whether an address is one of the newcomer's, however it is spelt."""
        own = {plain(each) for each in (self.address, *self.addresses)}
        return plain(address) in own


def plain(address: str) -> str:
    """Return an address without prefix and zone, in its shortest spelling; a name as it is."""
    try:
        return str(ipaddress.ip_interface(address.partition("%")[0]).ip)
    except ValueError:
        return address


def unknown(
    subject: str, unreadable: Mapping[str, str], section: str, verdict: Verdict = "warning"
) -> Row:
    """Return the row about what could not be read."""
    return Row(
        subject,
        f"unknown: {unreadable.get(section, 'no answer')}",
        verdict,
        "what could not be read never counts as correct",
        f"find out why the server gives no answer ({section}), then run again",
    )

"""Reachability between a new server and the nodes: routes, names, host keys."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence

from gpu_node.facts.network import state as network
from gpu_node.facts.network.state import NetworkState
from gpu_node.facts.preflight.newcomer import IDENTITY, UUIDS, Identity, parse_identity, parse_uuids
from gpu_node.facts.probe import checked
from gpu_node.facts.probe.base import State
from gpu_node.facts.probe.limited import LIMITED
from gpu_node.facts.probe.lines import lines_of
from gpu_node.facts.probe.peers import Peer
from gpu_node.facts.probe.protocol import Readings, Section
from gpu_node.facts.probe.request import ProbeRequest
from gpu_node.facts.probe.shell import shell
from gpu_node.facts.ssh import mesh
from gpu_node.facts.ssh.state import Names, parse_names

KEYSCAN_SECONDS = 5
# Each one is asked again, because sshd drops some of more than ten parallel connections
# (MaxStartups).
_TRIES = 3
SECONDS = _TRIES * (KEYSCAN_SECONDS + 3) + 6
_EVERY_KIND = "rsa,ecdsa,ed25519"
_SCAN = LIMITED + shell(
    "preflight/scans", seconds=KEYSCAN_SECONDS, limit=KEYSCAN_SECONDS + 3, tries=_TRIES
)


class Scan(State):
    """The host keys that a machine sees at a node's address, or the reason (`why`) it sees none.

    `keys` have the form of known_hosts: type and key.
    """

    keys: tuple[str, ...] = ()
    why: str = ""


class MemberState(State):
    """What a node of the cluster reports about itself and the route to a new server."""

    identity: Identity | None
    uuids: tuple[str, ...] | None
    network: NetworkState
    names: Names | None
    scans: dict[str, Scan] | None
    unreadable: dict[str, str]


def scans(peers: Iterable[Peer], pinned: Mapping[str, Sequence[str]]) -> Section:
    """Return the section that asks for the host keys of `peers`, in parallel.

    If `pinned` has keys of a peer, by its name, only one kind is asked for: each kind needs a
    connection.
    """
    calls = [
        f"scan {shlex.quote(peer.name)} {shlex.quote(peer.address)} {peer.port} "
        f"{_kinds(pinned.get(peer.name, ()))} &\n"
        for peer in peers
    ]
    script = f"{_SCAN}{''.join(calls)}wait\n"
    return Section("preflight.scans", script if calls else ":", seconds=SECONDS)


def _kinds(keys: Sequence[str]) -> str:
    """Return ssh-keyscan's name of the best kind of the pinned keys."""
    kinds = [key.split()[0] for key in keys]
    for word in ("ed25519", "ecdsa", "rsa"):
        if any(kind.startswith(("ssh-" + word, word + "-")) for kind in kinds):
            return word
    return _EVERY_KIND


def names(peer: Peer) -> Section:
    """Return the section about the addresses of a node's name."""
    return next(
        each for each in mesh.sections(ProbeRequest(nodes=(peer,))) if each.name == "ssh.names"
    )


def member_sections(newcomer: Peer, pinned: Sequence[str]) -> tuple[Section, ...]:
    """Return the sections that ask a node of the cluster about itself and about a new server."""
    return (
        IDENTITY,
        UUIDS,
        *network.sections(ProbeRequest(nodes=(newcomer,))),
        names(newcomer),
        scans([newcomer], {newcomer.name: pinned}),
    )


def parse_scans(text: str) -> dict[str, Scan]:
    """Parse `key NODE TYPE KEY` and `none NODE REASON` lines."""
    lines: dict[str, list[str]] = {}
    missing: dict[str, str] = {}
    for line in lines_of(text):
        word, node, rest = line.split(" ", 2)
        if word == "none":
            missing[node] = rest
        elif word == "key":
            lines.setdefault(node, []).append(rest)
        else:
            raise ValueError(f"not understood in a scan: {word!r}")
    keys = {node: Scan(keys=checked.public_keys(each)) for node, each in lines.items()}
    return {node: Scan(why=why) for node, why in missing.items()} | keys


def parse_member(readings: Readings) -> MemberState:
    """Return a node's state from its answers."""
    return MemberState(
        identity=readings.take("preflight.identity", parse_identity),
        uuids=readings.take("preflight.uuids", parse_uuids),
        network=network.parse(readings),
        names=readings.take("ssh.names", parse_names),
        scans=readings.take("preflight.scans", parse_scans),
        unreadable={each.section: each.reason for each in readings.unread},
    )

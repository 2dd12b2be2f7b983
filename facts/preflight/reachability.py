"""Reach: what a newcomer and the nodes say of each other: ways, names, host keys that they see."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence

from facts import mesh, network
from facts.area import State
from facts.cluster import Peer
from facts.limited import LIMITED
from facts.named import Named
from facts.network import NetworkState
from facts.newcomer import IDENTITY, UUIDS, Identity, parse_identity, parse_uuids
from facts.probe import Readings, Section
from facts.ssh import Names, fingerprint, parse_names

KEYSCAN_SECONDS = 5
# One is asked again, as sshd drops some of more than ten connections at a time (MaxStartups).
_TRIES = 3
SECONDS = _TRIES * (KEYSCAN_SECONDS + 3) + 6
_EVERY_KIND = "rsa,ecdsa,ed25519"

_SCANS = (
    LIMITED
    + r"""
command -v ssh-keyscan >/dev/null 2>&1 || { echo 'ssh-keyscan is not installed'; exit 1; }
scan() {
  try=0
  while [ "$try" -lt TRIES ]; do
    [ "$try" = 0 ] || sleep $((1 + $$ % 2))
    try=$((try + 1))
    limited LIMIT both ssh-keyscan -T SECONDS -p "$3" -t "$4" "$2" </dev/null
    keys=$(printf '%s\n' "$output" | awk -v name="$1" '
      $2 ~ /^(ssh-|ecdsa-)/ && NF > 2 { print "key " name " " $2 " " $3 }')
    [ -z "$keys" ] || { printf '%s\n' "$keys"; return; }
    case $output in *'No route'* | *unreachable* | *resolve* | *'not known'*) break ;; esac
  done
  last=$(printf '%s\n' "$output" | sed '/^#/d; /^[[:space:]]*$/d' | tail -n 1)
  printf 'none %s %s\n' "$1" "${last:-no SSH answers there}"
}
SCAN_EACH
wait
"""
)


class Scan(State):
    """The host keys that somebody sees at a node's address, or `why` none was seen.

    `keys` are as in known_hosts: type and key.
    """

    keys: tuple[str, ...] = ()
    why: str = ""


class MemberState(State):
    """What a node of the cluster says of itself and of the way to a newcomer."""

    identity: Identity | None
    uuids: tuple[str, ...] | None
    network: NetworkState
    names: Names | None
    scans: dict[str, Scan] | None
    unreadable: dict[str, str]


def scans(peers: Iterable[Peer], pinned: Mapping[str, Sequence[str]]) -> Section:
    """Return the section that asks for the host keys of `peers`, side by side.

    Of a peer with keys in `pinned`, by its name, one kind is asked for: a connection for each.
    """
    calls = [
        f"scan {shlex.quote(peer.name)} {shlex.quote(peer.address)} {peer.port} "
        f"{_kinds(pinned.get(peer.name, ()))} &"
        for peer in peers
    ]
    words = {
        "SECONDS": str(KEYSCAN_SECONDS),
        "LIMIT": str(KEYSCAN_SECONDS + 3),
        "TRIES": str(_TRIES),
        "SCAN_EACH": "\n".join(calls),
    }
    script = _SCANS
    for word, value in words.items():
        script = script.replace(word, value)
    return Section("preflight.scans", script if calls else ":", seconds=SECONDS)


def _kinds(keys: Sequence[str]) -> str:
    """Return how ssh-keyscan calls the best kind of the pinned keys."""
    kinds = [key.split()[0] for key in keys]
    for word in ("ed25519", "ecdsa", "rsa"):
        if any(kind.startswith(("ssh-" + word, word + "-")) for kind in kinds):
            return word
    return _EVERY_KIND


def names(peer: Peer) -> Section:
    """Return the section about what a resolver says of a node's name."""
    return next(each for each in mesh.sections(Named(nodes=(peer,))) if each.name == "ssh.names")


def member_sections(newcomer: Peer, pinned: Sequence[str]) -> tuple[Section, ...]:
    """Return what a node of the cluster is asked about itself and about a newcomer."""
    return (
        IDENTITY,
        UUIDS,
        *network.sections(Named(nodes=(newcomer,))),
        names(newcomer),
        scans([newcomer], {newcomer.name: pinned}),
    )


def parse_scans(text: str) -> dict[str, Scan]:
    """Parse `key NODE TYPE KEY` and `none NODE REASON` lines."""
    found: dict[str, Scan] = {}
    for line in text.splitlines():
        word, node, rest = line.split(" ", 2)
        if word == "none":
            found[node] = Scan(why=rest)
        elif word == "key":
            fingerprint(rest)  # a key that is none is not understood
            before = found.get(node, Scan()).keys
            found[node] = Scan(keys=tuple(dict.fromkeys((*before, rest))))
        else:
            raise ValueError(f"{word!r} is no word of a scan")
    return found


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

"""Scans: the host keys that a machine sees at the addresses of others."""

import shlex
from collections.abc import Sequence

from gpu_node.facts.probe import checked
from gpu_node.facts.probe.base import State
from gpu_node.facts.probe.protocol import Section
from gpu_node.facts.probe.readers import by_word, pairs
from gpu_node.facts.probe.request import Joining
from gpu_node.facts.probe.shell import LIMITED, shell

KEYSCAN_SECONDS = 5
# Each one is asked again, because sshd drops some of more than ten parallel connections
# (MaxStartups).
_TRIES = 3
SECONDS = _TRIES * (KEYSCAN_SECONDS + 3) + 6
_EVERY_KIND = "rsa,ecdsa,ed25519"
_SCAN = LIMITED + shell(
    "ssh/scans", seconds=KEYSCAN_SECONDS, limit=KEYSCAN_SECONDS + 3, tries=_TRIES
)


class Scan(State):
    """The host keys that a machine sees at a node's address, or the reason (`why`) it sees none.

    `keys` have the form of known_hosts: type and key.
    """

    keys: tuple[str, ...] = ()
    why: str = ""


def section(joining: Joining) -> Section:
    """Return the section that asks for the host keys of machines, in parallel.

    Of one whose keys are pinned only one kind is asked for: each kind needs a connection.
    """
    calls = [
        f"scan {shlex.quote(peer.name)} {shlex.quote(peer.address)} {peer.port} "
        f"{_kinds(joining.pinned.get(peer.name, ()))} &\n"
        for peer in joining.scanned
    ]
    script = f"{_SCAN}{''.join(calls)}wait\n"
    return Section("ssh.scans", script if calls else ":", seconds=SECONDS)


def _kinds(keys: Sequence[str]) -> str:
    """Return ssh-keyscan's name of the best kind of the pinned keys."""
    kinds = [key.split()[0] for key in keys]
    for word in ("ed25519", "ecdsa", "rsa"):
        if any(kind.startswith(("ssh-" + word, word + "-")) for kind in kinds):
            return word
    return _EVERY_KIND


def parse_scans(text: str) -> dict[str, Scan]:
    """Parse `key NODE TYPE KEY` and `none NODE REASON` lines."""
    rows = by_word(text, words="key none")
    missing, lines = pairs(rows["none"]), by_word(rows["key"])
    keys = {node: Scan(keys=checked.public_keys(each)) for node, each in lines.items()}
    return {node: Scan(why=why) for node, why in missing.items()} | keys

"""Clusters for tests: the states of many nodes that reach each other, and what breaks between them.

No network: a login works unless something that is broken here keeps it from working.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Collection
from functools import cached_property
from typing import Any

from gpu_node.drift.engine.finding import Finding
from gpu_node.drift.engine.nodes import Nodes
from gpu_node.drift.engine.registry import RULES
from gpu_node.drift.engine.roots import with_roots
from gpu_node.drift.engine.subject import Logins
from gpu_node.drift.ssh.mesh import authorized_line, known_lines
from gpu_node.facts.node import NodeState
from gpu_node.facts.probe.peers import Peer
from gpu_node.facts.probe.request import ProbeRequest
from gpu_node.facts.ssh import logins
from gpu_node.facts.ssh.state import SshState, fingerprint
from tests.drift import states

# From one node to another: what breaks a login, and whether more than the login shows it.
LINKS = {
    "unknown": True,  # the other's host key is missing in known_hosts here
    "changed": True,  # known_hosts here has another key of it
    "hosts": True,  # its name resolves to loopback here
    "authorized": True,  # it has no line for the key from here
    "from": True,  # its line is about another address
    "silent": False,  # a switch loses the packets between them
}
# What breaks all logins to a node, or from it, and no state shows.
NODES = ("sshd", "proxy")
Link = tuple[int, int]


def key_of(number: int, kind: str) -> str:
    """Return a public key, another one for each number and kind."""
    blob = hashlib.sha256(f"{kind} {number}".encode()).digest()
    raw = b"\0\0\0\x0bssh-ed25519\0\0\0 " + blob
    return f"ssh-ed25519 {base64.b64encode(raw).decode()}"


class Cluster:
    """Nodes n000, n001, ... whose mesh works, but for `links` and `nodes` with what breaks them."""

    def __init__(
        self,
        count: int,
        links: dict[Link, str] | None = None,
        nodes: dict[int, str] | None = None,
        every_login: bool = False,
    ) -> None:
        self.links, self.nodes, self.every_login = links or {}, nodes or {}, every_login
        self.peers = tuple(
            Peer(name=f"n{i:03}", address=f"10.1.{i // 256}.{i % 256}") for i in range(count)
        )
        self.names = [peer.name for peer in self.peers]

    def tried(self, here: int) -> list[int]:
        """Return the places of the nodes to which one logs in."""
        request = ProbeRequest(
            nodes=self.peers, address=self.peers[here].address, every_login=self.every_login
        )
        return [self.names.index(peer.name) for peer in logins.tried(request)]

    def is_broken(self, link: Link) -> bool:
        """Whether a login fails, for whatever reason."""
        here, there = link
        return (
            link in self.links or self.nodes.get(there) == "sshd" or self.nodes.get(here) == "proxy"
        )

    def _ssh(self, here: int) -> SshState:
        state: dict[str, Any] = {**self._alike, "host_keys": [key_of(here, "host")]}
        state["account"] = {**state["account"], "public": key_of(here, "user")}
        around = range(len(self.peers))
        state["logins"] = [self._login(here, there) for there in self.tried(here)]
        state["untried"] = len(self.peers) - len(state["logins"])
        state["names"] = {**state["names"], "sources": (self.at(here),)}
        # Of the others' logins to this node, and of its own.
        came = {i: self.links[i, here] for i in around if (i, here) in self.links}
        goes = {i: self.links[here, i] for i in around if (here, i) in self.links}
        lines = [self._line(i, here, came.get(i, "")) for i in around]
        kept = [each for each, i in zip(lines, around, strict=True) if came.get(i) != "authorized"]
        state["authorized"] = {"lines": kept}
        known = dict(state["known_hosts"]["keys"])
        names = dict(state["names"]["names"])
        for there, fault in goes.items():
            if fault in ("unknown", "changed"):
                other = (fingerprint(key_of(there, "old")),) if fault == "changed" else ()
                known |= {self.names[there]: other, self.at(there): other}
            if fault == "hosts":
                names[self.names[there]] = ("127.0.1.1",)
        state["known_hosts"] = {**state["known_hosts"], "keys": known}
        state["names"] = {**state["names"], "names": names}
        return SshState.model_validate(state)

    def at(self, place: int) -> str:
        """Return the address of a node."""
        return self.peers[place].address

    @cached_property
    def _alike(self) -> dict[str, Any]:
        """What all nodes have."""
        keys = {i: (fingerprint(key_of(i, "host")),) for i in range(len(self.peers))}
        by = {peer.name: (peer.address,) for peer in self.peers}
        block = [
            {"node": peer.name, "text": line}
            for i, peer in enumerate(self.peers)
            for line in known_lines(peer, (key_of(i, "host"),))
        ]
        return {
            **states.BASE["mesh"],
            "known_hosts": {
                "keys": {
                    lookup: keys[i]
                    for i, peer in enumerate(self.peers)
                    for lookup in (peer.name, peer.address)
                },
                "block": {"lines": block},
            },
            "names": {"names": by, "addresses": by, "sources": ()},
            "hosts": {"block": {"lines": []}, "lines": []},
        }

    def _line(self, of: int, here: int, fault: str) -> dict[str, str]:
        address = "10.9.9.9" if fault == "from" else self.at(of)
        name, public = self.names[of], key_of(of, "user")
        return {"node": name, "text": authorized_line(name, public, (address,), of == here)}

    def _login(self, here: int, there: int) -> dict[str, Any]:
        code = 255 if self.is_broken((here, there)) else 0
        name = self.names[there]
        output = f"ssh: connect to host {name} port 22: No route to host" if code else ""
        return {"node": name, "how": "name", "code": code, "output": output}

    @cached_property
    def states(self) -> dict[str, NodeState]:
        """The states of all nodes by name."""
        healthy = states.state()
        return {
            name: healthy.model_copy(update={"ssh": self._ssh(i)})
            for i, name in enumerate(self.names)
        }

    def findings(self) -> dict[str, list[Finding]]:
        """Return what the rules about SSH find on each node."""
        wanted, rules = states.wanted(), [each for each in RULES.values() if each.area == "ssh"]
        made: dict[Any, Any] = {}
        found = {}
        for name, state in self.states.items():
            among = Nodes(name, self.peers, self.states, made=made)
            found[name] = [each for rule in rules for each in rule.findings(state, wanted, among)]
        return with_roots(found)


def named(findings: dict[str, list[Finding]], names: Collection[str]) -> set[tuple[str, str]]:
    """Return the logins that findings are about, from node to node."""
    place = {name: i for i, name in enumerate(names)}
    links = set()
    for name, each in findings.items():
        for finding in each:
            if isinstance(finding.about, Logins):
                ends = [(name, peer) for peer in finding.about.names]
                is_to = finding.rule == "ssh.not-authorised"
                links |= {(peer, here) if is_to else (here, peer) for here, peer in ends}
    assert all(here in place and there in place for here, there in links)
    return links

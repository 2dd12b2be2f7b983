"""The sh by which a node logs in to the others: a section of the probe.

No command runs it alone: this is the one module of the benchmarks that
imports what it measures.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bench.nodes.cluster import Node
from gpu_node.facts.probe.peers import Peer
from gpu_node.facts.probe.protocol import render
from gpu_node.facts.probe.request import ProbeRequest
from gpu_node.facts.ssh import logins, mesh

SECTION = "ssh.logins"


@dataclass(frozen=True)
class LoginScript:
    """What one node runs: sh, and the names of the nodes that it logs in to."""

    sh: str
    names: Sequence[str]


def login_scripts(hosts: Sequence[Node], port: int) -> dict[str, LoginScript]:
    """Return the script of each node by its name; each has an sshd at the same port."""
    peers = tuple(Peer(name=host.name, address=host.address, port=port) for host in hosts)
    return {peer.name: _script(peers, peer) for peer in peers}


def _script(peers: tuple[Peer, ...], here: Peer) -> LoginScript:
    request = ProbeRequest(nodes=peers, address=here.address, port=here.port, mesh=True)
    section = [each for each in mesh.sections(request) if each.name == SECTION]
    return LoginScript(render(section), [each.name for each in logins.tried(request)])

"""SSH rule about /etc/hosts where cloud-init writes it anew at each boot."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_node.drift.engine.nodes import Nodes
from gpu_node.drift.engine.rule import Fault, rule
from gpu_node.drift.engine.subject import Path
from gpu_node.drift.ssh.mesh import ALONE_BY_ADDRESS, has_mesh, hosts_wanted
from gpu_node.facts.node import NodeState
from gpu_node.facts.ssh.mesh import HOSTS
from gpu_node.facts.ssh.state import HostsLine, Managed
from gpu_node.inventories.schema import NodeWanted


@rule(
    "ssh.hosts-rewritten",
    "warning",
    between=True,
    several=True,
    why="cloud-init writes the file from its template at each boot: the names of the nodes "
    "do not resolve after the next one",
    manual="set manage_etc_hosts: false there, or put our block of the file into cloud-init's "
    "template, /etc/cloud/templates/hosts.*.tmpl",
    alone=ALONE_BY_ADDRESS,
)
def hosts_rewritten(state: NodeState, wanted: NodeWanted, nodes: Nodes) -> Iterator[Fault]:
    """cloud-init writes /etc/hosts at each boot, in a way that takes the nodes' names away."""
    hosts = state.ssh.hosts
    if hosts is None or hosts.managed is None or not has_mesh(wanted, nodes):
        return
    managed = hosts.managed
    place = f"manage_etc_hosts: {managed.value} in {managed.path} line {managed.line}"
    if managed.is_rewritten and hosts_wanted(state, nodes):
        yield Fault(
            subject=Path(HOSTS),
            found=place,
            wanted="a file that keeps the lines of the nodes",
        )
    elif _adds_loopback(managed) and any(_is_loopback(line, nodes.name) for line in hosts.lines):
        yield Fault(
            subject=Path(HOSTS),
            found=place,
            wanted=f"a file in which {nodes.name} is not loopback",
            cause=f"cloud-init writes a line 127.0.1.1 for {nodes.name} at each boot, also "
            "where it was removed",
            fix="set manage_etc_hosts: false there",
        )


def _adds_loopback(managed: Managed) -> bool:
    """Whether cloud-init adds a line 127.0.1.1 with the node's name at each boot."""
    return managed.value.strip("\"'").lower() == "localhost"


def _is_loopback(line: HostsLine, name: str) -> bool:
    words = line.text.split()
    return words[:1] == ["127.0.1.1"] and name in words

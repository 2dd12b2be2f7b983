"""SSH rule about /etc/hosts where cloud-init writes it anew at each boot."""

from collections.abc import Iterator

from gpu_node.drift.engine.rule import At, Fault, check
from gpu_node.drift.engine.subject import Path
from gpu_node.drift.ssh.mesh import has_mesh, hosts_wanted
from gpu_node.facts.ssh.mesh import HOSTS
from gpu_node.facts.ssh.state import HostsLine, Managed


@check("ssh.hosts-rewritten")
def hosts_rewritten(at: At) -> Iterator[Fault]:
    hosts = at.node.ssh.hosts
    if hosts is None or hosts.managed is None or not has_mesh(at.wanted, at.nodes):
        return
    managed = hosts.managed
    place = f"manage_etc_hosts: {managed.value} in {managed.path} line {managed.line}"
    if managed.is_rewritten and hosts_wanted(at.node, at.nodes):
        yield Fault(
            subject=Path(HOSTS),
            found=place,
            wanted="a file that keeps the lines of the nodes",
        )
    elif _adds_loopback(managed) and any(_is_loopback(line, at.nodes.name) for line in hosts.lines):
        yield Fault(
            subject=Path(HOSTS),
            found=place,
            wanted=f"a file in which {at.nodes.name} is not loopback",
            cause=f"cloud-init writes a line 127.0.1.1 for {at.nodes.name} at each boot, also "
            "where it was removed",
            fix="set manage_etc_hosts: false there",
        )


def _adds_loopback(managed: Managed) -> bool:
    """Whether cloud-init adds a line 127.0.1.1 with the node's name at each boot."""
    return managed.value.strip("\"'").lower() == "localhost"


def _is_loopback(line: HostsLine, name: str) -> bool:
    words = line.text.split()
    return words[:1] == ["127.0.1.1"] and name in words

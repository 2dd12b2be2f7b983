"""SSH rule about /etc/hosts where cloud-init writes it anew at each boot."""

from __future__ import annotations

from collections.abc import Iterator

from drift.among import Among
from drift.mesh import has_mesh, hosts_wanted
from drift.rules.rule import Fault, rule
from facts.mesh import HOSTS
from facts.node import NodeState
from inventories.schema import NodeWanted


@rule("ssh.hosts-rewritten", "warning", between=True)
def hosts_rewritten(found: NodeState, wanted: NodeWanted, among: Among) -> Iterator[Fault]:
    """cloud-init writes /etc/hosts at each boot, without the lines of the nodes."""
    hosts = found.ssh.hosts
    if hosts is None or hosts.managed is None or not has_mesh(wanted, among):
        return
    if not hosts.managed.is_rewritten or not hosts_wanted(found, among):
        return
    yield Fault(
        subject=HOSTS,
        found=f"manage_etc_hosts: {hosts.managed.value} in {hosts.managed.path} line "
        f"{hosts.managed.line}",
        wanted="a file that keeps the lines of the nodes",
        cause="cloud-init writes the file from its template at each boot: the names of the nodes "
        "do not resolve after the next one",
        fix="set manage_etc_hosts: false there, or put our block of the file into cloud-init's "
        "template, /etc/cloud/templates/hosts.*.tmpl",
        fixable=False,
    )

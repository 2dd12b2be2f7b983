"""SSH rule about ports: launchers run `ssh NAME`, which has to find an sshd on another port."""

from __future__ import annotations

from collections.abc import Iterator

from drift.among import Among
from drift.mesh import has_mesh
from drift.rules.rule import Fault, rule
from drift.ssh_settings import PORTS, client, is_included, ports, set_by
from facts.cluster import Peer
from facts.node import NodeState
from facts.ssh import SshState
from facts.ssh_settings import SSH_CONFIG, SettingLine, lines_about
from inventories.schema import NodeWanted


@rule("ssh.port-unset", "error", between=True)
def port_unset(found: NodeState, wanted: NodeWanted, among: Among) -> Iterator[Fault]:
    """`ssh NAME` connects to another port than that of the node's sshd."""
    if not has_mesh(wanted, among):
        return
    for peer in among.nodes:
        told = client(found.ssh, peer)
        if told is None or told.proxy or told.port == peer.port:
            continue
        theirs = [each for each in _lines(found.ssh) if each.path != PORTS]
        fixable = not theirs and is_included(found.ssh)
        yield Fault(
            subject=peer.name,
            found=f"ssh {peer.name} connects to port {told.port}",
            wanted=f"port {peer.port}",
            cause="launchers run ssh with the node's name alone: the login fails, or another sshd "
            "answers",
            fix=_fix(found.ssh, peer, bool(theirs), fixable),
            fixable=fixable,
        )


def _lines(ssh: SshState) -> tuple[SettingLine, ...]:
    return lines_about(ssh.client, ("port",)) if ssh.client is not None else ()


def _fix(ssh: SshState, peer: Peer, theirs: bool, fixable: bool) -> str:
    block = " / ".join(line.strip() for line in ports([peer]).splitlines()[:2])
    if fixable:
        return f"{block or 'no port for it'} in {PORTS}"
    if theirs:
        return f"look at {set_by(ssh, ('port',))}: {peer.name} needs {block or 'port 22'}"
    return f"above the first Host line of {SSH_CONFIG}: {block or 'no port for it'}"

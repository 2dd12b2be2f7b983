"""SSH rule about ports: launchers run `ssh NAME`, which has to find an sshd on another port."""

from collections.abc import Iterator

from gpu_node.drift.engine.nodes import Nodes
from gpu_node.drift.engine.rule import At, Fault, check
from gpu_node.drift.ssh.links import Link, faults
from gpu_node.drift.ssh.mesh import has_mesh
from gpu_node.drift.ssh.settings import PORTS, client, is_included, ports, set_by, worked
from gpu_node.facts.node import NodeState
from gpu_node.facts.probe.peers import Peer
from gpu_node.facts.ssh.settings import SSH_CONFIG, SettingLine, lines_about
from gpu_node.facts.ssh.state import SshState
from gpu_node.inventories.wanted import NodeWanted


@check("ssh.port-unset")
def port_unset(at: At) -> Iterator[Fault]:
    yield from faults(at.nodes, wrong_ports(at.node, at.wanted, at.nodes), worked(at.node.ssh))


def wrong_ports(state: NodeState, wanted: NodeWanted, nodes: Nodes) -> Iterator[Link]:
    """Yield each peer that `ssh NAME` looks for on another port than its own."""
    if not has_mesh(wanted, nodes) or state.ssh.client is None:
        return
    theirs = [line for line in _lines(state.ssh) if line.path != PORTS]
    fixable = not theirs and is_included(state.ssh)
    for peer in nodes.peers:
        parsed = client(state.ssh, peer)
        if parsed is None or parsed.proxy or parsed.port == peer.port:
            continue
        yield Link(
            peer=peer.name,
            words=f"ssh connects to port {parsed.port}",
            wanted=f"port {peer.port}",
            cause="launchers run ssh with the node's name alone: the login fails, or another sshd "
            "answers",
            fix=_fix(state.ssh, peer, bool(theirs), fixable),
            fixable=fixable,
            wants="the ports of the inventory",
            fixes=_fixes(state.ssh, bool(theirs), fixable),
        )


def _lines(ssh: SshState) -> tuple[SettingLine, ...]:
    return lines_about(ssh.client, ("port",)) if ssh.client is not None else ()


def _fix(ssh: SshState, peer: Peer, theirs: bool, fixable: bool) -> str:
    block = " / ".join(line.strip() for line in ports([peer]).split("\n")[:2])
    if fixable:
        return f"{block or 'no port for it'} in {PORTS}"
    if theirs:
        return f"look at {set_by(ssh, ('port',))}: {peer.name} needs {block or 'port 22'}"
    return f"above the first Host line of {SSH_CONFIG}: {block or 'no port for it'}"


def _fixes(ssh: SshState, theirs: bool, fixable: bool) -> str:
    """Return how to set the ports of several nodes."""
    if fixable:
        return f"Host and Port of each in {PORTS}"
    if theirs:
        return f"look at {set_by(ssh, ('port',))}: each of them needs its port"
    return f"above the first Host line of {SSH_CONFIG}: Host and Port of each"

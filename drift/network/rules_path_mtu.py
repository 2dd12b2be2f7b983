"""Network rule about the MTU of a path: large messages reach the other nodes as small ones do."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_node.drift.engine.rule import At, Fault, check
from gpu_node.drift.engine.subject import Interface
from gpu_node.drift.network.interfaces import link_of
from gpu_node.drift.ranges import ranges


@check("network.path-mtu")
def path_mtu(at: At) -> Iterator[Fault]:
    here = at.node.ports
    stalled = [name for name, each in (here.tried or {}).items() if each.large is False]
    if not stalled:
        return
    link = link_of(at.node.network, here.interface)
    mtu = link.mtu if link is not None and link.mtu else 1500
    there = at.nodes.states[stalled[0]].ports.address if stalled[0] in at.nodes.states else "NODE"
    yield Fault(
        subject=Interface(here.interface),
        found=f"to {ranges(stalled)}: 512 bytes pass, 256 KiB do not",
        wanted=f"packets of its MTU, {mtu}, reach them",
        fix=f"ping -M do -s {mtu - 28} {there} fails; find the size that passes, then let ICMP "
        f'"fragmentation needed" pass on the way, or on all nodes: ip link set {here.interface} '
        "mtu SIZE+28",
    )

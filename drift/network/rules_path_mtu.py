"""Network rule about the MTU of a path: large messages reach the other nodes as small ones do."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_node.drift.engine.rule import At, Fault, check
from gpu_node.drift.engine.subject import Interface
from gpu_node.drift.ranges import ranges


@check("network.path-mtu")
def path_mtu(at: At) -> Iterator[Fault]:
    here = at.node.ports
    stalled = [name for name, each in (here.tried or {}).items() if each.large is False]
    if stalled:
        yield Fault(
            subject=Interface(here.interface),
            found=f"to {ranges(stalled)}: 512 bytes pass, 256 KiB do not",
            wanted="large messages pass, too",
        )

"""Host rule about the file systems of a network that the other nodes have mounted."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping

from gpu_node.drift.engine.nodes import Nodes, plain
from gpu_node.drift.engine.rule import At, Fault, check
from gpu_node.drift.engine.subject import Path
from gpu_node.drift.ranges import ranges
from gpu_node.facts.host.state import Mount
from gpu_node.facts.node import NodeState


@check("host.mount-differs")
def mount_differs(at: At) -> Iterator[Fault]:
    mounts = at.node.host.mounts
    if mounts is None:
        return
    known, by_point = at.nodes.once(_by_point)
    own = {each.point: each for each in mounts.found}
    for point, having in by_point.items():
        others = {name: each for name, each in having.items() if name != at.nodes.name}
        is_usual = 2 * len(others) > len(known - {at.nodes.name})
        is_automatic = any(f"{point}/".startswith(f"{each}/") for each in mounts.automatic)
        if not is_usual or (point not in own and is_automatic):
            continue
        source = Counter(each.source for each in others.values()).most_common(1)[0][0]
        if (found := _unlike(own.get(point), others, source)) and not _serves(at.node, source):
            yield Fault(
                subject=Path(point),
                found=found,
                wanted=f"{source}, as on {ranges(others)}",
                names={"PATH": point},
            )


def _by_point(nodes: Nodes) -> tuple[set[str], Mapping[str, dict[str, Mount]]]:
    """Return the nodes whose mounts are known, and those of each mount point."""
    known, by_point = set[str](), defaultdict[str, dict[str, Mount]](dict)
    for name, state in nodes.states.items():
        if state.host.mounts is not None:
            known.add(name)
            for each in state.host.mounts.found:
                by_point[each.point][name] = each
    return known, by_point


def _unlike(own: Mount | None, others: Mapping[str, Mount], source: str) -> str:
    """Return how a mount is unlike those of the others; empty: it is like one of them."""
    if own is None:
        return "not mounted"
    if own.source not in {each.source for each in others.values()}:
        return f"mounted from {own.source}"
    is_closed = own.read_only and not any(each.read_only for each in others.values())
    return f"{own.source}, read-only" if is_closed else ""


def _serves(state: NodeState, source: str) -> bool:
    """Whether a node is the server of a source itself: there the folder is its own."""
    server = source.partition(":/")[0].strip("[]")
    addresses = {plain(each.address) for each in state.network.addresses or ()}
    name = state.host.name
    names = {name.name, name.name.partition(".")[0]} if name else set()
    return plain(server) in addresses or server in names or server.partition(".")[0] in names

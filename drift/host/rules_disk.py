"""Host rules about file systems: full or read-only ones, and those that the others have mounted."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from shlex import quote

from gpu_node.drift import units
from gpu_node.drift.engine.nodes import Nodes, plain
from gpu_node.drift.engine.rule import At, Fault, check
from gpu_node.drift.engine.subject import Path
from gpu_node.drift.ranges import ranges
from gpu_node.facts.host.state import Disk, HostState, Mount
from gpu_node.facts.node import NodeState

# Proposed, without a source: 95 %, but for a large disk that still has room for checkpoints of a
# model of 7e9 parameters (18 bytes for each: 117 GiB).
_FULL = 0.95
_ROOM = 200 * 1024**3
_INODES = 1_000_000


@check("host.disk-full")
def disk_full(at: At[HostState, object]) -> Iterator[Fault]:
    for disk in at.here.disks or ():
        shown = [text for text in (_bytes(disk), _inodes(disk)) if text]
        if shown:
            is_out = disk.available == 0 or disk.inodes_free == 0
            others = [path for path in disk.paths if path != disk.point]
            yield Fault(
                subject=Path(disk.point),
                found="; ".join(shown) + (f" (it has {', '.join(others)})" if others else ""),
                wanted=f"less than {_percent(_FULL, 1)} used",
                names={"PATH": quote(disk.point)},
                severity="error" if is_out else None,
                stops=_is_of_jobs(disk),
            )


@check("host.read-only")
def read_only(at: At[HostState, object]) -> Iterator[Fault]:
    for disk in at.here.disks or ():
        if disk.read_only:
            yield Fault(
                subject=Path(disk.point),
                found="read-only",
                wanted="writable",
                names={"PATH": quote(disk.point)},
                stops=_is_of_jobs(disk),
            )


def largest(point: str, by_inodes: bool = False) -> str:
    """Return the command that shows what has the most bytes of a file system, or inodes."""
    how, order = ("-x --inodes", "-n") if by_inodes else ("-xh", "-h")
    return f"du {how} --max-depth=2 {quote(point)} | sort {order}"


def _is_of_jobs(disk: Disk) -> bool:
    """Whether a job writes there: to /tmp, its home or the workspace."""
    return not {*disk.paths} <= {"/", "/var"}


def _bytes(disk: Disk) -> str:
    whole = disk.used + disk.available
    if not whole or disk.used < whole * _FULL or disk.available > _ROOM:
        return ""
    return f"{_percent(disk.used, whole)} used, {units.size(disk.available)} left"


def _inodes(disk: Disk) -> str:
    if disk.inodes_used is None or disk.inodes_free is None:
        return ""
    whole = disk.inodes_used + disk.inodes_free
    if not whole or disk.inodes_used < whole * _FULL or disk.inodes_free > _INODES:
        return ""
    return f"{_percent(disk.inodes_used, whole)} of the inodes used, {disk.inodes_free} left"


def _percent(part: float, whole: float) -> str:
    """Return a share, down: 100 % is a file system without anything left."""
    return f"{int(part * 100 / whole)} %"


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

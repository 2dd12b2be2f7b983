"""Host rule about disks: a local file system that a job writes to is full or read-only."""

from __future__ import annotations

from collections.abc import Iterator
from shlex import quote

from gpu_node.drift import units
from gpu_node.drift.engine.rule import At, Fault, check
from gpu_node.drift.engine.subject import Path
from gpu_node.facts.host.state import Disk, HostState

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

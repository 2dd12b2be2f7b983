"""Shared memory rules about what is in it: segments left behind, and trainers nobody waits for."""

from __future__ import annotations

from collections.abc import Iterator

from drift.rules.rule import Fault, rule
from drift.segments import age, in_doubt, is_certain, orphans, stale, told
from facts.segments import Adopted, Use
from facts.shm import ShmState
from inventories.schema import ShmWanted

# From where on the next job is likely to find no room.
_NEARLY_FULL = 0.9


@rule("shm.stale-segments", "warning")
def stale_segments(found: ShmState, wanted: ShmWanted) -> Iterator[Fault]:
    """Segments of ended processes take room in /dev/shm that the next job needs."""
    if found.use is None:
        return
    if segments := stale(found.use):
        full = found.usage is not None and found.usage.used > _NEARLY_FULL * found.usage.size > 0
        yield Fault(
            subject="/dev/shm",
            found=told(found.use, segments),
            wanted="no segment that no process has open or mapped",
            cause="processes that are killed leave their segments behind; what these take, the "
            "next job lacks: 'Error while creating shared memory segment /dev/shm/nccl-...'",
            fix="remove these files, and none that a process uses",
            severity="error" if full else None,
        )
    if doubtful := in_doubt(found.use):
        yield Fault(
            subject="/dev/shm",
            found=f"{told(found.use, doubtful)}; whether they are in use cannot be seen",
            wanted="every process to be seen",
            cause=f"{_blind(found.use)} cannot be looked into by the SSH user, and what may be in "
            "use is not called left over",
            fix="let the SSH user become root (ssh: {sudo: true}), or look as root: "
            "lsof +D /dev/shm",
            fixable=False,
            severity="info",
        )


def _blind(use: Use) -> str:
    """Return who cannot be looked into, in words."""
    names = {each.name for each in use.unseen}
    if "pod" in names:
        return "the other containers of the pod"
    if "host" in names:
        return "the processes outside of this container, which shares /dev/shm with its host,"
    count = f"{len(use.unseen)} process{'es' if use.unseen[1:] else ''}"
    return f"{count} ({', '.join(sorted(names)[:3])})"


@rule("shm.orphaned-trainer", "warning")
def orphaned_trainer(found: ShmState, wanted: ShmWanted) -> Iterator[Fault]:
    """A training process holds GPUs or segments though its launcher is gone."""
    for each in orphans(found.use) if found.use else ():
        killed = wanted.kill_orphans is True and is_certain(each)
        yield Fault(
            subject=f"pid {each.pid}",
            found=f"{each.command or 'a process'} of {each.user}, {age(each.age)} old, holds "
            f"{_held(each)}; its launcher is gone",
            wanted="no training process without its launcher",
            cause="what an earlier crash left running keeps GPU memory and segments from the next "
            "job, and nobody waits for it",
            fix=_fix(each, killed),
            fixable=killed,
            severity=None if is_certain(each) else "info",
        )


def _held(process: Adopted) -> str:
    """Return what a process holds, in words."""
    counts = ((process.gpus, "GPU"), (process.segments, "segment"))
    return " and ".join(f"{count} {thing}{'s' * (count > 1)}" for count, thing in counts if count)


def _fix(process: Adopted, killed: bool) -> str:
    if killed or is_certain(process):
        allow = "" if killed else ", or allow it in the inventory: shm: {kill_orphans: true}"
        return f"kill {process.pid}{allow}"
    variables = ", ".join(process.launched)
    return f"find out whether it was started by hand, with {variables}; if not: kill {process.pid}"

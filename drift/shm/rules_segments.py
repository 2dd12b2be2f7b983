"""Shared memory rules about its content: stale segments, and trainers without a launcher."""

from collections.abc import Iterator

from gpu_node.drift.engine.rule import At, Fault, check
from gpu_node.drift.engine.subject import Path, Pid
from gpu_node.drift.shm.rules_docker import DEFAULT
from gpu_node.drift.shm.segments import age, in_doubt, in_words, is_certain, orphans, stale, taken
from gpu_node.facts.shm.segments import Adopted, Use
from gpu_node.facts.shm.state import ShmState
from gpu_node.inventories.plurals import counted
from gpu_node.inventories.wanted import ShmWanted

# From where on the next job is likely to find no room.
_NEARLY_FULL = 0.9


@check("shm.stale-segments")
def stale_segments(at: At[ShmState, ShmWanted | None]) -> Iterator[Fault]:
    if at.here.use is None:
        return
    if segments := stale(at.here.use):
        full = (
            at.here.usage is not None and at.here.usage.used > _NEARLY_FULL * at.here.usage.size > 0
        )
        yield Fault(
            subject=Path("/dev/shm"),
            found=in_words(at.here.use, segments),
            wanted="only segments that a process has open or mapped",
            severity="error" if full else None,
            stops=at.here.usage is not None and at.here.usage.size - at.here.usage.used <= DEFAULT,
        )
    if doubtful := in_doubt(at.here.use):
        yield Fault(
            subject=Path("/dev/shm"),
            found=f"{in_words(at.here.use, doubtful)}; cannot determine whether they are in use",
            wanted="all processes visible",
            cause=f"the SSH user cannot inspect {_blind(at.here.use)}, and files that may be in "
            "use are not reported as unused",
            fix="let the SSH user become root (ssh: {sudo: true}), or look as root: "
            "lsof +D /dev/shm",
            fixable=False,
            severity="info",
        )
    if reused := taken(at.here.use):
        users = ", ".join(sorted({f"uid {each.uid}" for each in reused}))
        yield Fault(
            subject=Path("/dev/shm"),
            found=f"{in_words(at.here.use, [each.segment for each in reused])}; cannot determine "
            "whether they are in use",
            wanted="only segments whose process is known",
            cause="the name has the pid of the process that made the file, which is now the pid of "
            f"another user's process ({users}): the maker has ended, or has changed its user",
            fix="ask the owner of these files whether the job has ended, and remove them then",
            fixable=False,
            severity="info",
        )


def _blind(use: Use) -> str:
    """Return who cannot be looked into, in words."""
    names = {each.name for each in use.unseen}
    if "pod" in names:
        return "the other containers of the pod"
    if "host" in names:
        return "the processes outside of this container, which shares /dev/shm with its host"
    return f"{counted(len(use.unseen), 'process', 'processes')} ({', '.join(sorted(names)[:3])})"


@check("shm.orphaned-trainer")
def orphaned_trainer(at: At[ShmState, ShmWanted | None]) -> Iterator[Fault]:
    for each in orphans(at.here.use) if at.here.use else ():
        killed = at.want is not None and at.want.kill_orphans is True and is_certain(each)
        yield Fault(
            subject=Pid(each.pid),
            found=f"{each.command or 'a process'} of {each.user}, {age(each.age)} old, holds "
            f"{_held(each)}; its launcher is gone",
            wanted="no training process without its launcher",
            fix=_fix(each, killed),
            fixable=killed,
            severity=None if is_certain(each) else "info",
        )


def _held(process: Adopted) -> str:
    """Return what a process holds, in words."""
    counts = ((process.gpus, "GPU"), (process.segments, "segment"))
    return " and ".join(counted(*each) for each in counts if each[0])


def _fix(process: Adopted, killed: bool) -> str:
    if killed or is_certain(process):
        allow = "" if killed else ", or allow it in the inventory: shm: {kill_orphans: true}"
        return f"kill {process.pid}{allow}"
    variables = ", ".join(process.launched)
    return f"find out whether it was started manually, with {variables}; if not: kill {process.pid}"

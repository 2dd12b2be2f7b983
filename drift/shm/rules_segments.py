"""Shared memory rules about its content: stale segments, and trainers without a launcher."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_node.drift.engine.rule import Fault, rule
from gpu_node.drift.engine.subject import Path, Pid
from gpu_node.drift.shm.rules_docker import DEFAULT
from gpu_node.drift.shm.segments import age, in_doubt, in_words, is_certain, orphans, stale, taken
from gpu_node.facts.shm.segments import Adopted, Use
from gpu_node.facts.shm.state import ShmState
from gpu_node.inventories.plurals import counted
from gpu_node.inventories.schema import ShmWanted

# From where on the next job is likely to find no room.
_NEARLY_FULL = 0.9


@rule(
    "shm.stale-segments",
    ("warning", "error", "info"),
    step="shm",
    always=True,
    stops="every",
    why="killed processes leave their segments behind, and the next job lacks that memory: "
    "'Error while creating shared memory segment /dev/shm/nccl-...'",
    manual="remove these files, but none that a process uses",
    repair="Removes the files in /dev/shm that no process has open or mapped.",
    alone="Remove the files that are yours and that no process uses: find /dev/shm -user "
    "$USER, fuser -v FILE.",
)
def stale_segments(state: ShmState, wanted: ShmWanted | None) -> Iterator[Fault]:
    """Segments of ended processes take room in /dev/shm that the next job needs."""
    if state.use is None:
        return
    if segments := stale(state.use):
        full = state.usage is not None and state.usage.used > _NEARLY_FULL * state.usage.size > 0
        yield Fault(
            subject=Path("/dev/shm"),
            found=in_words(state.use, segments),
            wanted="only segments that a process has open or mapped",
            severity="error" if full else None,
            stops=state.usage is not None and state.usage.size - state.usage.used <= DEFAULT,
        )
    if doubtful := in_doubt(state.use):
        yield Fault(
            subject=Path("/dev/shm"),
            found=f"{in_words(state.use, doubtful)}; cannot determine whether they are in use",
            wanted="all processes visible",
            cause=f"the SSH user cannot inspect {_blind(state.use)}, and files that may be in "
            "use are not reported as unused",
            fix="let the SSH user become root (ssh: {sudo: true}), or look as root: "
            "lsof +D /dev/shm",
            fixable=False,
            severity="info",
        )
    if reused := taken(state.use):
        users = ", ".join(sorted({f"uid {each.uid}" for each in reused}))
        yield Fault(
            subject=Path("/dev/shm"),
            found=f"{in_words(state.use, [each.segment for each in reused])}; cannot determine "
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


@rule(
    "shm.orphaned-trainer",
    ("warning", "info"),
    step="shm",
    always=True,
    key="shm.kill_orphans",
    why="what an earlier crash left running keeps GPU memory and segments from the next job",
    manual="find out who started the process, then kill PID",
    repair="Ends the process, only where the inventory has shm: {kill_orphans: true}.",
    alone="Kill the process if it is yours.",
)
def orphaned_trainer(state: ShmState, wanted: ShmWanted | None) -> Iterator[Fault]:
    """A training process holds GPUs or segments though its launcher is gone."""
    for each in orphans(state.use) if state.use else ():
        killed = wanted is not None and wanted.kill_orphans is True and is_certain(each)
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

"""What is left over in /dev/shm: segments that no process has open, trainers without a launcher."""

import re
from datetime import datetime, timezone

from gpu_node.drift.units import size
from gpu_node.facts.probe.bounds import moment
from gpu_node.facts.shm.segments import Adopted, Segment, Taken, Unseen, Use
from gpu_node.inventories.plurals import counted, few

# A file is made, sized and mapped within a second, and a rank that is late opens its peers' by
# name within the launcher's time for a rendezvous. Five minutes are more than both.
STALE_SECONDS = 300
_NAMED = 3

# sshd's own process for a connection that has not logged in: it is root's, and opens nothing.
_SSHD = re.compile(r"sshd(-session|-auth)?")
# Variables that a launcher alone sets beside LOCAL_RANK: torchrun, which accelerate uses, too, and
# DeepSpeed's; mpirun sets its own. RANK and its like are also set manually, where there is no
# launcher to miss, and every one of them comes to all that a trainer starts.
_LAUNCHERS = {"TORCHELASTIC_RUN_ID", "CROSS_SIZE"}
_ALONE = {"OMPI_COMM_WORLD_RANK"}
# A shell looks after what it has started, and trains nothing.
_SHELL = re.compile(r"\S*\b(ba|da|z|k|a|tc|c|fi)?sh( |$)")
# How a child of Python's multiprocessing is started; its parent is there as long as it is wanted.
_CHILD = re.compile(r"--multiprocessing-fork|from multiprocessing\.(spawn|forkserver)")
# Pid 1 of a container may be the launcher itself.
_LAUNCHER = re.compile(
    r"python|torchrun|accelerate|deepspeed|mpirun|mpiexec|orted|prte|hydra|srun|slurm|ray|jupyter"
)


def old(use: Use) -> list[Segment]:
    """Return the segments that no visible process uses and that are not new."""
    return [each for each in use.unused if _is_old(use, each)]


def taken(use: Use) -> list[Taken]:
    """Return the segments, not new, of a pid that another user's process has now."""
    return [each for each in use.taken if _is_old(use, each.segment)]


def _is_old(use: Use, segment: Segment) -> bool:
    return use.now - segment.modified > STALE_SECONDS


def stale(use: Use) -> list[Segment]:
    """Return the segments that no live process has open or mapped, nor can have."""
    return [each for each in old(use) if not any(_may_hold(one, each) for one in use.unseen)]


def in_doubt(use: Use) -> list[Segment]:
    """Return the segments that a process which is not readable may use."""
    known = set(stale(use))
    return [each for each in old(use) if each not in known]


def _may_hold(process: Unseen, segment: Segment) -> bool:
    """Whether a process that is not readable can have opened a file: root's can open all."""
    if _SSHD.fullmatch(process.name):
        return False
    open_to_others = int(segment.mode, 8) & 0o066
    return bool(open_to_others) or not {0, segment.uid}.isdisjoint(process.uids)


def orphans(use: Use) -> list[Adopted]:
    """Return the processes of a launch that hold GPUs or segments and whose launcher is gone."""
    return [
        each
        for each in use.adopted
        if (each.launched or _CHILD.search(each.command))
        and not (each.tty or _LAUNCHER.search(each.parent_name) or _SHELL.match(each.command))
    ]


def is_certain(process: Adopted) -> bool:
    """Whether a launcher has started it, and not a person who set the variables manually."""
    names = set(process.launched)
    by_launcher = "LOCAL_RANK" in names and bool(names & _LAUNCHERS)
    return by_launcher or bool(names & _ALONE) or bool(_CHILD.search(process.command))


def in_words(use: Use, segments: list[Segment]) -> str:
    """Return segments as a report shows them: how many and how much, since when, whose, a few."""
    oldest = datetime.fromtimestamp(
        moment(min(segment.modified for segment in segments)), timezone.utc
    )
    owners = sorted({segment.owner for segment in segments})
    names = [segment.name for segment in segments]
    return (
        f"{counted(len(segments), 'file')}, {size(sum(segment.size for segment in segments))}, "
        f"oldest {oldest:%Y-%m-%d}, of {', '.join(owners)}: {', '.join(few(names, _NAMED, '...'))}"
    )


def age(seconds: int) -> str:
    """Return an age as people say it: its largest unit alone."""
    for unit, name in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= unit:
            return f"{seconds // unit} {name}"
    return f"{seconds} s"

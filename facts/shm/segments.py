"""Segments: files of NCCL, torch and OpenMP in /dev/shm, the processes that use them, and orphans.

A file is in use if a process has it open or mapped; device and inode are compared as well as the
name: a process in another mount namespace sees it at another path, and a deleted file of the same
name is another file. The name of an OpenMP or torch file contains the pid of the process that made
it. The file is in use while that process lives: OpenMP closes its file at once, and with PyTorch's
file_system sharing no process maps a tensor that waits in a queue. If another user's process has
that pid now, it is unknown whether the file is in use.
"""

from typing import Annotated

from pydantic import Field

from gpu_node.facts.probe.base import State
from gpu_node.facts.probe.process import PROCESS
from gpu_node.facts.probe.protocol import Section, Unreadable
from gpu_node.facts.probe.readers import Columns, by_word, pairs
from gpu_node.facts.probe.redaction import SHARED, redacted
from gpu_node.facts.probe.shell import assigned, shell

# Ticks per second of the start times in /proc/PID/stat, on every Linux (proc(5)).
_TICKS = 100

LOOK = assigned(gn_process=PROCESS) + shell("shm/segments")
# The names of the variables that a launcher sets for each rank.
_NAMES = "TORCHELASTIC_RUN_ID|LOCAL_RANK|RANK|WORLD_SIZE|CROSS_SIZE|OMPI_COMM_WORLD_RANK|PMI_RANK"
_USED = shell("shm/used", names=_NAMES)
SECONDS = 20
# Only root can examine the processes of other users.
USE = Section("shm.use", LOOK + _USED, SECONDS, shared=(SHARED,), root=True)


class Segment(State):
    """A file in /dev/shm that no examined process uses.

    `modified` is in seconds since 1970 as the node has it, also before 1970 or after 9999: any user
    can set it, and the removal compares it.
    """

    name: str
    inode: int
    modified: int
    size: int
    mode: Annotated[str, Field(pattern="^[0-7]{1,4}$")]
    uid: int
    owner: str


class Taken(State):
    """A file whose name has the pid of a process that now is another user's, with that user id."""

    segment: Segment
    uid: int


class Unseen(State):
    """A process that could not be examined: its user ids and its name."""

    uids: tuple[int, ...]
    name: str


class Adopted(State):
    """A process that holds segments or GPUs and whose parent is an init: its real parent ended.

    `start` is in ticks since the boot; `launched` are the names of a launcher's variables that it
    was started with.
    """

    pid: int
    start: int
    age: int
    tty: bool
    segments: int
    gpus: int
    parent: int
    parent_name: str
    launched: tuple[str, ...] = ()
    user: str = ""
    command: str = ""


class Use(State):
    """The segments that no visible process uses, and the adopted processes.

    `taken` are neither: it is unknown whether they are in use. `now` is the node's clock, in
    seconds since 1970.
    """

    now: int
    unused: tuple[Segment, ...]
    unseen: tuple[Unseen, ...]
    adopted: tuple[Adopted, ...]
    taken: tuple[Taken, ...] = ()


def parse(text: str) -> Use:
    """Parse lines of a kind and its fields: `clock`, `segment`, `taken`, `adopted`, ..."""
    rows = by_word(text)
    if "seen" not in rows:
        raise Unreadable(
            f"the list of processes that use /dev/shm is incomplete: {text.strip()[-80:]!r}"
        )
    now, uptime = rows["clock"][0].split()
    about = (pairs(rows["launched"]), pairs(rows["command"]))
    adopted = [_adopted(line, float(uptime), *about) for line in rows["adopted"]]
    return Use(
        now=int(now),
        unused=tuple(sorted(map(_segment, rows["segment"]), key=lambda each: each.name)),
        unseen=tuple(map(_unseen, rows["unseen"])),
        adopted=tuple(sorted(adopted, key=lambda each: each.pid)),
        taken=tuple(map(_taken, rows["taken"])),
    )


_SEGMENT = Columns(Segment, "inode modified size mode uid name owner...", " ")


def _segment(line: str) -> Segment:
    segment = _SEGMENT.row(line)
    is_known = segment.owner != "UNKNOWN"
    return segment if is_known else segment.model_copy(update={"owner": str(segment.uid)})


def _taken(line: str) -> Taken:
    uid, _, rest = line.partition(" ")
    return Taken(segment=_segment(rest), uid=int(uid))


def _unseen(line: str) -> Unseen:
    *uids, name = line.split(" ", 3)
    return Unseen(uids=tuple(sorted({int(uid) for uid in uids})), name=name)


_ADOPTED = Columns(
    Adopted, "pid start tty segments gpus parent parent_name...", " ", tty=lambda tty: tty != "0"
)


def _adopted(
    line: str, uptime: float, launched: dict[str, str], command: dict[str, str]
) -> Adopted:
    pid, start = line.split(" ")[:2]
    user, _, words = command.get(pid, "").partition(" ")
    return _ADOPTED.row(
        line,
        age=max(0, int(uptime - int(start) / _TICKS)),
        launched=tuple(launched.get(pid, "").split()),
        user=user,
        command=redacted(words),
    )

"""Docker and podman: what a container gets by default, and running containers that have GPUs.

dockerd gives a container 64 MB of /dev/shm unless `default-shm-size` is set, by its command line or
by daemon.json; one key in both places keeps it from starting. On SIGHUP it reads default-shm-size
again (moby, daemon/reload_unix.go: reloadPlatform), and default-ulimits only when it starts
(daemon/reload.go has no case for it).
"""

import re
from typing import Literal

from pydantic import Field

from gpu_node.facts.probe import owner
from gpu_node.facts.probe.base import State
from gpu_node.facts.probe.process import SHARED as PROCESS
from gpu_node.facts.probe.protocol import Part, Readings, Section, Unreadable
from gpu_node.facts.probe.readers import Columns, by_word, number, parted
from gpu_node.facts.probe.redaction import HIDDEN
from gpu_node.facts.probe.shell import USERS_FILE, assigned, shell

SECTION, ROOTLESS, CONTAINERS = "shm.docker", "shm.rootless", "shm.containers"
_MOST_CONTAINERS = 256
_DAEMON = (
    "gn_docker",
    assigned(users_files=USERS_FILE) + shell("shm/docker_daemon", hidden=HIDDEN),
)
SECTIONS = (
    Section(SECTION, shell("shm/docker"), shared=(_DAEMON,), root=True, light=True),
    Section(
        ROOTLESS,
        shell("shm/docker_rootless"),
        shared=(_DAEMON, owner.SHARED),
        root=True,
        light=True,
    ),
    Section(
        CONTAINERS,
        shell("shm/gpu_containers", most=_MOST_CONTAINERS),
        shared=(PROCESS,),
        root=True,
        light=True,
    ),
)
Kind = Literal["root", "snap", "rootless"]
Limit = int | Literal["unlimited"]


class Flag(State):
    """An option of dockerd, such as --default-shm-size, and its value."""

    name: str
    value: str


class UnitLine(State):
    """A line of docker's unit, or of a file that the unit reads: such options in it."""

    path: str
    line: int
    text: str


class Daemon(State):
    """A dockerd; `pid` is None where it does not run.

    `text` is its daemon.json with `...` for all texts but a size, None where there is none;
    `problem` is why it cannot be read.
    `is_later`: the file is newer than the process. `limits` are the soft limits that its containers
    inherit. `toolkit`: beside that of root there is what gives GPUs to its containers.
    """

    kind: Kind
    pid: int | None
    flags: tuple[Flag, ...] = ()
    units: tuple[UnitLine, ...] = ()
    limits: dict[str, Limit] = Field(default_factory=dict)
    path: str = ""
    text: str | None = None
    problem: str = ""
    is_later: bool = False
    toolkit: bool = False


class PodmanSize(State):
    """A line of containers.conf that sets shm_size."""

    path: str
    line: int
    value: str


class Docker(State):
    """The daemons of a node. `podman`: the sizes that are set for a podman in use, else None."""

    daemons: tuple[Daemon, ...] = ()
    podman: tuple[PodmanSize, ...] | None = None


class GpuContainer(State):
    """A running container that has GPUs: its first process, and the bytes of its /dev/shm.

    `shm` is None without a limit; `cgroup` has the id of the container.
    """

    pid: int
    shm: int | None
    cgroup: str
    name: str


_FLAG = Columns(Flag, "name value...", "=")
_SIZE = Columns(PodmanSize, "path line value")
_UNIT = Columns(UnitLine, "path line text...")
_CONTAINER = Columns(
    GpuContainer, "pid shm cgroup name", shm=lambda kib: number(kib) * 1024 if kib else None
)


def taken(readings: Readings) -> Docker | None:
    """Return all daemons; None if those of root are unknown. Those of users are unread apart."""
    docker = readings.take(SECTION, parse)
    theirs = readings.take(ROOTLESS, parse_rootless)
    if docker is None or theirs is None:
        return docker
    return docker.model_copy(update={"daemons": (*docker.daemons, *theirs.daemons)})


def taken_containers(readings: Readings) -> tuple[GpuContainer, ...] | None:
    """Return the known containers; None if no container is known, and some were not examined."""
    containers = readings.take(CONTAINERS, parse_containers)
    is_unread = CONTAINERS in {each.section for each in readings.unread}
    return None if not containers and (is_unread or taken_closed(readings)) else containers


def taken_closed(readings: Readings) -> int:
    """Return of how many processes only root sees whether they are a container's."""
    return readings.take(CONTAINERS, parse_closed) or 0


def parse_rootless(text: str) -> Part[Docker]:
    """Parse the lines of docker_rootless.sh, and why some users' docker is unknown."""
    whys, known = parted(text, "unread\t")
    return Part(parse(known), "; ".join(by_word(whys, "\t")["unread"]))


def parse(text: str) -> Docker:
    """Parse the lines of docker.sh."""
    of_podman, known = parted(text, "podman", "size\t")
    rows = by_word(of_podman, "\t")
    first, *daemons = re.split(r"^daemon\t", known, flags=re.MULTILINE)
    if first.strip():
        raise Unreadable(f"not understood: {first[:80]!r}")
    return Docker(
        daemons=tuple(map(_daemon, daemons)),
        podman=tuple(map(_SIZE.row, rows["size"])) if rows["podman"] else None,
    )


def _daemon(text: str) -> Daemon:
    first, _, rest = text.partition("\n")
    kind, pid, started = first.split("\t")
    rows = by_word(rest, "\t", "flag limit unit file problem text toolkit")
    path, changed = (rows["file"] or ["\t"])[-1].split("\t")
    limits = (row.split("\t") for row in rows["limit"])
    known = {
        "kind": kind,
        "pid": number(pid) if pid else None,
        "flags": tuple(map(_FLAG.row, rows["flag"])),
        "units": tuple(map(_UNIT.row, rows["unit"])),
        "limits": {name: soft if soft == "unlimited" else number(soft) for name, soft, _ in limits},
        "path": path,
        "text": "\n".join(rows["text"]) if changed else None,
        "problem": "".join(rows["problem"][-1:]),
        "toolkit": bool(rows["toolkit"]),
        "is_later": bool(changed) and 0 < int(started or 0) < number(changed),
    }
    return Daemon.model_validate(known)


def parse_containers(text: str) -> Part[tuple[GpuContainer, ...]]:
    """Parse the lines of gpu_containers.sh, and why some containers are unknown: `more N`."""
    others, containers = parted(text, "more ", "closed ")
    whys = by_word(others)["more"]
    why = f"{whys[0]} mount namespaces were not examined" if whys else ""
    return Part(_CONTAINER(containers), why)


def parse_closed(text: str) -> int:
    """Return of how many processes gpu_containers.sh cannot see the containers: `closed N`."""
    return sum(map(number, by_word(text)["closed"]))

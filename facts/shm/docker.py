"""Docker and podman: what a container gets by default, and running containers that have GPUs.

dockerd gives a container 64 MB of /dev/shm unless `default-shm-size` is set, by its command line or
by daemon.json; one key in both places keeps it from starting. On SIGHUP it reads default-shm-size
again (moby, daemon/reload_unix.go: reloadPlatform), and default-ulimits only when it starts
(daemon/reload.go has no case for it).
"""

from collections.abc import Callable
from typing import Literal, TypeVar

from pydantic import Field

from gpu_node.facts.probe import bounds, owner
from gpu_node.facts.probe.base import State
from gpu_node.facts.probe.lines import lines_of
from gpu_node.facts.probe.process import SHARED as PROCESS
from gpu_node.facts.probe.protocol import Readings, Section, Unread, Unreadable
from gpu_node.facts.probe.redaction import HIDDEN
from gpu_node.facts.probe.shell import assigned, shell
from gpu_node.facts.probe.users_file import USERS_FILE

SECTION, ROOTLESS, CONTAINERS = "shm.docker", "shm.rootless", "shm.containers"
_MOST_CONTAINERS = 256
_CLOSED = "closed "
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
T = TypeVar("T")
Kind = Literal["root", "snap", "rootless"]
_KINDS: dict[str, Kind] = {"root": "root", "snap": "snap", "rootless": "rootless"}
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
    inherit.
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


def taken(readings: Readings) -> Docker | None:
    """Return all daemons; None if those of root are unknown. Those of users are unread apart."""
    docker = readings.take(SECTION, parse)
    theirs = _taken_in_part(readings, ROOTLESS, parse_rootless)
    if docker is None or theirs is None:
        return docker
    return docker.model_copy(update={"daemons": (*docker.daemons, *theirs.daemons)})


def taken_containers(readings: Readings) -> tuple[GpuContainer, ...] | None:
    """Return the known containers; None if no container is known, and some were not examined."""
    containers = _taken_in_part(readings, CONTAINERS, parse_containers)
    is_unread = CONTAINERS in {each.section for each in readings.unread}
    return None if not containers and (is_unread or taken_closed(readings)) else containers


def taken_closed(readings: Readings) -> int:
    """Return of how many processes only root sees whether they are a container's."""
    return readings.take(CONTAINERS, parse_closed) or 0


def _taken_in_part(
    readings: Readings, section: str, parse: Callable[[str], tuple[T, str]]
) -> T | None:
    """Return what is known of a section; why the rest is unknown is unread as well."""
    part, why = readings.take(section, parse) or (None, "")
    if why:
        readings.unread.append(Unread(section, bounds.short(why)))
    return part


def parse_rootless(text: str) -> tuple[Docker, str]:
    """Parse the lines of docker_rootless.sh, and why some users' docker is unknown."""
    rows = text.split("\n")
    whys = [row.removeprefix("unread\t") for row in rows if row.startswith("unread\t")]
    known = "\n".join(row for row in rows if not row.startswith("unread\t"))
    return parse(known), "; ".join(whys)


def parse(text: str) -> Docker:
    """Parse the lines of docker.sh."""
    daemons: list[dict[str, object]] = []
    started, has_podman = 0, False
    lines: list[str] = []
    sizes: list[PodmanSize] = []
    flags: list[Flag] = []
    units: list[UnitLine] = []
    limits: dict[str, Limit] = {}
    for row in filter(None, text.split("\n")):
        kind, *rest = row.split("\t")
        if kind == "daemon":
            flags, units, limits, lines = [], [], {}, []
            started = int(rest[2] or 0)
            pid = int(rest[1]) if rest[1] else None
            daemons.append({"kind": _KINDS[rest[0]], "pid": pid, "flags": flags, "units": units})
            daemons[-1] |= {"limits": limits}
        elif kind == "podman":
            has_podman = True
        elif kind == "size":
            sizes.append(PodmanSize(path=rest[0], line=int(rest[1]), value=rest[2]))
        elif not daemons:
            raise Unreadable(f"not understood: {row[:80]!r}")
        elif kind == "flag":
            name, _, value = rest[0].partition("=")
            flags.append(Flag(name=name, value=value))
        elif kind == "limit":
            limits[rest[0]] = "unlimited" if rest[1] == "unlimited" else int(rest[1])
        elif kind == "unit":
            units.append(UnitLine(path=rest[0], line=int(rest[1]), text=rest[2]))
        elif kind == "file":
            daemons[-1] |= {"path": rest[0], "text": lines if rest[1] else None}
            daemons[-1]["is_later"] = bool(rest[1]) and 0 < started < int(rest[1])
        elif kind == "problem":
            daemons[-1]["problem"] = rest[0]
        elif kind == "text":
            lines.append("\t".join(rest))
        else:
            raise Unreadable(f"not understood: {row[:80]!r}")
    for daemon in daemons:
        text_lines = daemon.get("text")
        daemon["text"] = "\n".join(text_lines) if isinstance(text_lines, list) else None
    return Docker(
        daemons=tuple(map(Daemon.model_validate, daemons)),
        podman=tuple(sizes) if has_podman else None,
    )


def parse_containers(text: str) -> tuple[tuple[GpuContainer, ...], str]:
    """Parse the lines of gpu_containers.sh, and why some containers are unknown: `more N`."""
    lines = [line for line in lines_of(text) if not line.startswith(_CLOSED)]
    containers = tuple(_container(line) for line in lines if not line.startswith("more "))
    whys = [line.removeprefix("more ") for line in lines if line.startswith("more ")]
    return containers, f"{whys[0]} mount namespaces were not examined" if whys else ""


def parse_closed(text: str) -> int:
    """Return of how many processes gpu_containers.sh cannot see the containers: `closed N`."""
    lines = (line for line in lines_of(text) if line.startswith(_CLOSED))
    return sum(int(line.removeprefix(_CLOSED)) for line in lines)


def _container(line: str) -> GpuContainer:
    pid, kib, cgroup, name = line.split("\t")
    return GpuContainer(
        pid=int(pid), shm=int(kib) * 1024 if kib else None, cgroup=cgroup, name=name
    )

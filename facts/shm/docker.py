"""Docker and podman: what a container gets by default, and running containers that have GPUs.

dockerd gives a container 64 MB of /dev/shm unless `default-shm-size` is set, by its command line or
by daemon.json; one key in both places keeps it from starting. On SIGHUP it reads default-shm-size
again (moby, daemon/reload_unix.go: reloadPlatform), and default-ulimits only when it starts
(daemon/reload.go has no case for it).
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from gpu_node.facts.probe import owner
from gpu_node.facts.probe.base import State
from gpu_node.facts.probe.lines import lines_of
from gpu_node.facts.probe.process import PROCESS
from gpu_node.facts.probe.protocol import Section, Unreadable
from gpu_node.facts.probe.shell import assigned, shell
from gpu_node.facts.probe.users_file import USERS_FILE

SECTION, CONTAINERS = "shm.docker", "shm.containers"
_MOST_CONTAINERS = 256
SECTIONS = (
    Section(
        SECTION,
        assigned(users_files=USERS_FILE) + shell("shm/docker"),
        shared=(owner.SHARED,),
        root=True,
        light=True,
    ),
    Section(
        CONTAINERS,
        PROCESS + shell("shm/gpu_containers", most=_MOST_CONTAINERS),
        root=True,
        light=True,
    ),
)
Kind = Literal["root", "snap", "rootless"]
_KINDS: dict[str, Kind] = {"root": "root", "snap": "snap", "rootless": "rootless"}
Limit = int | Literal["unlimited"]


class Flag(State):
    """An option of dockerd, such as --default-shm-size, and its value."""

    name: str
    value: str


class UnitLine(State):
    """A line of docker's unit, or of a file that the unit reads, that has such an option."""

    path: str
    line: int
    text: str


class Daemon(State):
    """A dockerd; `pid` is None where it does not run.

    `text` is its daemon.json, None where there is none; `problem` is why it cannot be read.
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
    for each in daemons:
        text_lines = each.get("text")
        each["text"] = "\n".join(text_lines) if isinstance(text_lines, list) else None
    return Docker(
        daemons=tuple(map(Daemon.model_validate, daemons)),
        podman=tuple(sizes) if has_podman else None,
    )


def parse_containers(text: str) -> tuple[GpuContainer, ...]:
    """Parse the lines of gpu_containers.sh; none, and `more N` not examined, is not none."""
    lines = lines_of(text)
    found = tuple(_container(line) for line in lines if not line.startswith("more "))
    if lines and not found:
        raise Unreadable(f"{lines[0].removeprefix('more ')} mount namespaces were not examined")
    return found


def _container(line: str) -> GpuContainer:
    pid, kib, cgroup, name = line.split("\t")
    return GpuContainer(
        pid=int(pid), shm=int(kib) * 1024 if kib else None, cgroup=cgroup, name=name
    )

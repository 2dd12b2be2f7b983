"""Shared memory: the mount of /dev/shm, its size, mode and fstab lines, and the container."""

import re

from gpu_node.facts.probe.base import AreaFact, Parsers, State, taken
from gpu_node.facts.probe.lines import lines_of
from gpu_node.facts.probe.protocol import Readings, Section, Unreadable
from gpu_node.facts.probe.readers import number
from gpu_node.facts.probe.request import ProbeRequest
from gpu_node.facts.probe.shell import shell
from gpu_node.facts.shm import boot as shm_boot
from gpu_node.facts.shm import docker as container_managers
from gpu_node.facts.shm import ipc as remove_ipc
from gpu_node.facts.shm import segments

# Bit of CAP_SYS_ADMIN in a capability mask (linux/capability.h): needed to mount and remount.
CAP_SYS_ADMIN = 21


_MEMORY = (
    Section("shm.mount", shell("shm/mount"), light=True),
    Section("shm.size", "df -Pk /dev/shm | tail -n 1", seconds=5, light=True),
    Section("shm.mode", "ls -ldn /dev/shm/.", light=True),
    Section("shm.fstab", shm_boot.ASK, light=True),
    Section("shm.container", shell("shm/container"), root=True, light=True),
    Section("shm.memory", "awk '$1 == \"MemTotal:\" { print $2 }' /proc/meminfo", light=True),
)


def sections(request: ProbeRequest) -> tuple[Section, ...]:
    """Return the sections; a request's user trains."""
    ipc = remove_ipc.section(request.user)
    return (*_MEMORY, segments.USE, ipc, *container_managers.SECTIONS)


class Mount(State):
    """The topmost mount at /dev/shm; `layers` counts the mounts stacked there, 0 for none."""

    layers: int
    fstype: str = ""
    source: str = ""
    flags: tuple[str, ...] = ()


class Usage(State):
    """Bytes of the file system at /dev/shm."""

    size: int
    used: int


class Mode(State):
    """Permission bits (octal, as chmod takes them) and owner of /dev/shm."""

    mode: str
    uid: int
    gid: int


class FstabLine(State):
    """A line of /etc/fstab about /dev/shm; `size` as written there, empty if it has none."""

    line: int
    fstype: str
    options: str
    size: str


class Container(State):
    """The container manager's name ("none": not a container) and whether mounting is allowed."""

    kind: str
    can_mount: bool


class ShmState(State):
    """Everything about /dev/shm that rules use."""

    mount: Mount | None
    usage: Usage | None
    mode: Mode | None
    fstab: tuple[FstabLine, ...] | None
    # Other files that set its size at boot; read with fstab.
    boot: tuple[shm_boot.BootLine, ...] | None = None
    container: Container | None
    # Bytes of the node's memory: the base for a size in percent, or for the default size.
    memory: int | None
    use: segments.Use | None
    # What logind does with the segments of a user who logs out.
    ipc: remove_ipc.RemoveIpc | None = None
    # What containers get by default, and the running ones that have GPUs.
    docker: container_managers.Docker | None = None
    containers: tuple[container_managers.GpuContainer, ...] | None = None
    # The processes that only root sees: more containers may be among them.
    closed: int = 0


def parse_mount(text: str) -> Mount:
    """Parse mountinfo lines (proc(5)): id parent maj:min root point flags … - type source super."""
    lines = lines_of(text)
    if not lines:
        return Mount(layers=0)
    before, _, after = lines[-1].partition(" - ")
    fstype, source = after.split()[:2]
    flags = tuple(before.split()[5].split(","))
    return Mount(layers=len(lines), fstype=fstype, source=source, flags=flags)


def parse_usage(text: str) -> Usage:
    """Parse the last line of `df -Pk`: device, 1024-blocks, used, available, capacity, mount."""
    fields = text.split()
    size, used = int(fields[-5]), int(fields[-4])
    return Usage(size=size * 1024, used=used * 1024)


def parse_mode(text: str) -> Mode:
    """Parse `ls -ldn`; a trailing `+` or `.` (ACL, SELinux) is not part of the mode."""
    symbols, _, uid, gid = text.split()[:4]
    bits = 0
    for index, (symbol, letter) in enumerate(zip(symbols[1:10], "rwxrwxrwx", strict=True)):
        if symbol not in f"{letter}-sStT":
            raise Unreadable(f"{symbols!r} is not a file mode")
        bits |= (symbol not in "-ST") << (8 - index)
    special = (symbols[3] in "sS") << 2 | (symbols[6] in "sS") << 1 | (symbols[9] in "tT")
    return Mode(mode=f"{special:o}{bits:03o}", uid=int(uid), gid=int(gid))


def parse_fstab(text: str) -> tuple[tuple[FstabLine, ...], tuple[shm_boot.BootLine, ...]]:
    """Parse lines `NUMBER device point type options …` (fstab(5)), and of `shm_boot.parse`."""
    lines = [line for line in lines_of(text) if line.strip()]
    fstab = [line for line in lines if line[0].isdecimal()]
    others = [line for line in lines if not line[0].isdecimal()]
    return tuple(map(_fstab_line, fstab)), shm_boot.parse(others)


def _fstab_line(line: str) -> FstabLine:
    number, _device, _point, fstype, *rest = line.split()
    options = rest[0] if rest else "defaults"
    return FstabLine(line=int(number), fstype=fstype, options=options, size=size_in(options))


def size_in(options: str) -> str:
    """Return the size in a line's options, empty if it has none; the last counts (mount(8))."""
    sizes = re.findall(r"(?:^|,)size=([^,]*)", options)
    return sizes[-1] if sizes else ""


def parse_container(text: str) -> Container:
    """Parse the container's name and the capability bounding set in hex."""
    kind, mask = text.split()
    return Container(kind=kind, can_mount=bool(int(mask, 16) >> CAP_SYS_ADMIN & 1))


PARSERS: Parsers = {
    "shm.fstab": ("fstab boot", parse_fstab),
    "shm.mount": ("mount", parse_mount),
    "shm.size": ("usage", parse_usage),
    "shm.mode": ("mode", parse_mode),
    "shm.container": ("container", parse_container),
    "shm.memory": ("memory", lambda text: number(text) * 1024),
    "shm.use": ("use", segments.parse),
    remove_ipc.SECTION: ("ipc", remove_ipc.parse),
}


def parse(readings: Readings) -> ShmState:
    """Return the area's state from the probe's answers."""
    return ShmState(
        **taken(readings, PARSERS),
        docker=container_managers.taken(readings),
        containers=container_managers.taken_containers(readings),
        closed=container_managers.taken_closed(readings),
    )


class SharedMemory(AreaFact):
    """Returns `ShmState` as a dict: {"mount": {...}, "usage": {"size": 67108864, ...}, ...}."""

    sections_for = staticmethod(sections)
    state = ShmState
    parse = staticmethod(parse)

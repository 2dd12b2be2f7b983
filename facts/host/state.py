"""Host: its memory and who was killed for lack of it, how the last boot began, disks, name, time.

The kernel log and /proc/vmstat are those of the whole machine. In a container nothing is concluded
from them: `Memory.is_machine` and `container` say where they were read.
"""

import re
import shlex
from collections.abc import Sequence
from datetime import datetime, timezone
from typing import Literal

from gpu_node.facts.host import newcomer, settings
from gpu_node.facts.host.newcomer import System
from gpu_node.facts.host.settings import Setting
from gpu_node.facts.packages.sources import Held, PackageSource
from gpu_node.facts.probe import checked
from gpu_node.facts.probe.base import AreaFact, Parsers, State
from gpu_node.facts.probe.file_systems import NETWORK
from gpu_node.facts.probe.lines import lines_of
from gpu_node.facts.probe.protocol import Section, Unreadable
from gpu_node.facts.probe.readers import by_word, pairs
from gpu_node.facts.probe.request import ProbeRequest
from gpu_node.facts.probe.shell import assigned, shell

# The inode of the first pid namespace: PROC_PID_INIT_INO of include/linux/proc_ns.h (since 3.8).
FIRST_PID_SPACE = 0xEFFFFFFC
# How many lines about killed processes are sent, the newest ones, and how many codes of Xid errors
# of a GPU or a switch.
_MOST_KILLS, _MOST_XIDS = 20, 256
# More rows of `last` than are asked for, and more file systems than a node has for a few paths.
_MOST_BOOTS, _MOST_DISKS = 64, 64
# Of file systems of a network: a machine of containers may have some for each.
_MOST_MOUNTS = 256
_KINDS = " ".join(sorted({*NETWORK, "fuse.glusterfs", "fuse.juicefs", "fuse.sshfs"}))
_MOUNTS = assigned(kinds=f" {_KINDS} ") + shell("host/mounts", most=_MOST_MOUNTS)
_MOST = 2**63


def sections(request: ProbeRequest) -> tuple[Section, ...]:
    """Return the sections about the host; disks are asked about for the named paths too."""
    named = [request.workspace.path] if request.workspace else []
    if request.joining is not None:
        named = [*newcomer.FOLDERS, *request.joining.folders]
    of_newcomer = newcomer.sections(request.joining.data) if request.joining is not None else ()
    disks = f"{assigned(user=request.user)}set -- {shlex.join(named)}\n" + shell("host/disks")
    log = shell("host/log", space=FIRST_PID_SPACE, most=_MOST_KILLS, kinds=_MOST_XIDS)
    boots = shell("host/boots", space=FIRST_PID_SPACE)
    return (
        Section("host.swap", shell("host/swap"), place="first", light=True),
        Section("host.log", log, seconds=8, root=True, light=True),
        Section("host.boots", boots, seconds=15, root=True, light=True),
        Section("host.disks", disks, 8, root=request.trains_apart, light=True),
        Section("host.mounts", _MOUNTS, light=True),
        Section("host.name", shell("host/name"), seconds=8, light=True),
        Section("host.memory", shell("host/memory"), place="last", light=True),
        *of_newcomer,
        *settings.sections(request),
    )


class Swap(State):
    """Pages swapped in since the boot, `uptime` seconds after it."""

    pages_in: int
    uptime: float


class Memory(State):
    """The node's memory in bytes at the end of the probe; None: the kernel does not report it.

    `some` and `full` are the shares of the last 60 s, in percent, in which some or all processes
    waited for memory (PSI). `oom_kills` are the processes that the kernel killed since the boot.
    `limit` and `own_oom_kills` are those of the cgroup that a container has. `is_machine`: these
    are the numbers of the node itself, as far as its pid namespace shows.
    """

    total: int
    available: int | None
    swap_total: int
    swap_free: int
    page: int
    swap: Swap | None
    some: float | None
    full: float | None
    oom_kills: int | None
    limit: int | None
    own_oom_kills: int | None
    is_machine: bool | None


class Kill(State):
    """A process that the kernel killed: seconds after the boot (None: unknown), pid and name.

    `in_group`: its cgroup was at its limit, not the machine. `bytes` is its resident memory.
    """

    at: float | None
    pid: int
    command: str
    in_group: bool
    bytes: int | None


class Xid(State):
    """An error that the NVIDIA driver reports of a GPU, or of an NVSwitch (`of_switch`): an SXid.

    `slot` is its place on the PCI bus, `times` how often the log has it, `at` the seconds after the
    boot of the newest one (None: unknown), `text` what that one says beside.
    """

    code: int
    slot: str
    times: int
    at: float | None
    text: str
    of_switch: bool = False


class Log(State):
    """The kernel log: the newest kills, and how many it has, and the Xid errors of GPUs.

    `hung` are the servers of NFS that do not respond: no later line has their answer.

    It is not `whole` where its beginning is lost, and `denied` says why it could not be read. In a
    `container` it was not read.
    """

    container: bool = False
    denied: str = ""
    whole: bool = False
    count: int = 0
    kills: tuple[Kill, ...] = ()
    xids: tuple[Xid, ...] = ()
    hung: tuple[str, ...] = ()


class BootRow(State):
    """A boot or a shutdown of wtmp, in seconds since 1970."""

    kind: Literal["reboot", "shutdown"]
    at: float


class Boots(State):
    """How the node booted: `rows` of wtmp, newest first; else how the journal before it ends.

    `now` is the node's clock, `uptime` the seconds since its boot. In a `container` nothing was
    read.
    """

    container: bool = False
    now: float | None = None
    uptime: float | None = None
    rows: tuple[BootRow, ...] = ()
    journal: Literal["clean", "unclean", ""] = ""


class Disk(State):
    """A local file system: sizes in bytes for users, `inodes` where it has a fixed number.

    `paths` are those of the node that are on it.
    """

    point: str
    paths: tuple[str, ...]
    used: int
    available: int
    inodes_used: int | None = None
    inodes_free: int | None = None
    read_only: bool = False


class Mount(State):
    """A file system of a network: where it is mounted, from where (nas:/data), and its kind."""

    point: str
    source: str
    kind: str
    read_only: bool


class Mounts(State):
    """The file systems of a network, and where autofs mounts them at their first use."""

    found: tuple[Mount, ...] = ()
    automatic: tuple[str, ...] = ()


class Name(State):
    """The node's own name, what it resolves to there, and the offset of local time (+0800).

    `addresses` is None where the resolver gave no answer. `boot` is the id of the boot, empty
    where the kernel does not report it.
    """

    name: str
    boot: str = ""
    addresses: tuple[str, ...] | None
    offset: str


class HostState(State):
    """Everything about the host that rules use."""

    # Swap at the beginning of the probe; `memory` has it at the end.
    swap: Swap | None
    memory: Memory | None
    log: Log | None
    boots: Boots | None
    disks: tuple[Disk, ...] | None
    name: Name | None
    mounts: Mounts | None = None
    # Of readings.yml.
    numa_balancing: str | None = None
    # What the inventory names; None: it names nothing.
    sysctl: tuple[Setting, ...] | None = None
    modules: tuple[Setting, ...] | None = None
    services: tuple[Setting, ...] | None = None
    # What is asked only where a server is to become a node; the id is empty where it has none.
    machine_id: str | None = None
    system: System | None = None
    package_lock: tuple[Held, ...] | None = None
    repositories: tuple[PackageSource, ...] | None = None


def _pairs(text: str) -> dict[str, str]:
    rows = [line.split() for line in lines_of(text) if line.strip()]
    return {row[0]: row[1] for row in rows if len(row) > 1}


def _count(pairs: dict[str, str], name: str) -> int | None:
    return checked.number(pairs[name], _MOST) if name in pairs else None


def _seconds(text: str) -> float:
    if not re.fullmatch(r"[0-9]{1,11}(\.[0-9]{1,9})?", text):
        raise Unreadable(f"not a number of seconds: {text[:40]!r}")
    return float(text)


def _percent(pairs: dict[str, str], name: str) -> float | None:
    return min(_seconds(pairs[name]), 100.0) if name in pairs else None


def parse_swap(text: str) -> Swap:
    """Parse lines of `pswpin` and `uptime`."""
    swap = _swap(_pairs(text))
    if swap is None:
        raise Unreadable("/proc/vmstat has no pswpin")
    return swap


def _swap(pairs: dict[str, str]) -> Swap | None:
    pages_in = _count(pairs, "pswpin")
    return None if pages_in is None else Swap(pages_in=pages_in, uptime=_seconds(pairs["uptime"]))


def parse_memory(text: str) -> Memory:
    """Parse `NAME VALUE` lines: meminfo's in KiB, the limit of the cgroup in bytes or `max`."""
    pairs = _pairs(text)
    for needed in ("MemTotal", "SwapTotal", "SwapFree", "page"):
        if needed not in pairs:
            raise Unreadable(f"no {needed} in /proc")
    kib = {name: _count(pairs, name) for name in pairs if name.startswith(("Mem", "Swap", "page"))}
    size = {name: value * 1024 for name, value in kib.items() if value is not None}
    space = pairs.get("space", "")
    limit = None if pairs.get("limit") == "max" else _count(pairs, "limit")
    return Memory(
        total=size["MemTotal"],
        available=size.get("MemAvailable"),
        swap_total=size["SwapTotal"],
        swap_free=size["SwapFree"],
        page=size["page"],
        swap=_swap(pairs),
        some=_percent(pairs, "some"),
        full=_percent(pairs, "full"),
        oom_kills=_count(pairs, "oom_kill"),
        limit=limit,
        own_oom_kills=_count(pairs, "own_oom_kill"),
        is_machine=space == f"pid:[{FIRST_PID_SPACE}]" if space else None,
    )


_KILL = re.compile(r"Killed process ([0-9]{1,10}) \((.{1,64})\)(?:,? (?:total-vm:|UID )|$)")
_SINCE_BOOT = re.compile(r"^\[ *([0-9]{1,11}\.[0-9]{1,9})\]")
_RESIDENT = re.compile(r"(?:anon|file|shmem)-rss:([0-9]{1,15})kB")


def parse_log(text: str) -> Log:
    """Parse `container`, or `denied REASON`, or `whole yes|no`, `count N` and `kill LINE`.

    `xid TIMES LINE` is the newest line of a code and a GPU, `hung SERVER` one of NFS.
    """
    if text.strip() == "container":
        return Log(container=True)
    rows = by_word(text)
    if denied := next(iter(rows["denied"]), ""):
        return Log(denied=denied[:200])
    lines = rows["kill"][-_MOST_KILLS:]
    return Log(
        whole=rows["whole"][-1] == "yes",
        count=checked.number(rows["count"][-1]),
        kills=tuple(kill for line in lines if (kill := _kill(line)) is not None),
        hung=tuple(sorted(rows["hung"][:_MOST_MOUNTS])),
        xids=tuple(xid for row in rows["xid"][:_MOST_XIDS] if (xid := _xid(row)) is not None),
    )


def _kill(line: str) -> Kill | None:
    match, time = _KILL.search(line), _SINCE_BOOT.match(line)
    if match is None:
        return None
    resident = _RESIDENT.findall(line)
    return Kill(
        at=float(time[1]) if time else None,
        pid=int(match[1]),
        command="".join(each if each.isprintable() else "?" for each in match[2]),
        in_group="Memory cgroup out of memory" in line,
        bytes=sum(map(int, resident)) * 1024 if resident else None,
    )


_XID = re.compile(r"(?:NVRM: |(S))Xid \((?:PCI:)?([^)\s]{1,20})\): ([0-9]{1,6})(?:, *(.*))?")


def _xid(row: str) -> Xid | None:
    times, _, line = row.partition(" ")
    match, time = _XID.search(line), _SINCE_BOOT.match(line)
    if match is None:
        return None
    return Xid(
        code=int(match[3]),
        slot=match[2],
        times=checked.number(times),
        at=float(time[1]) if time else None,
        text=match[4] or "",
        of_switch=match[1] is not None,
    )


_ROW = re.compile(
    r"(reboot|shutdown) .*?((?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) [A-Z][a-z]{2} [ 0-9][0-9] "
    r"[0-9]{2}:[0-9]{2}:[0-9]{2} [0-9]{4})"
)


def parse_boots(text: str) -> Boots:
    """Parse `now SECONDS UPTIME`, rows of `last -x -F` in UTC, and `journal clean|unclean`."""
    if text.strip() == "container":
        return Boots(container=True)
    lines = [line for line in lines_of(text) if line.strip()]
    _, now, uptime = lines[0].split()
    rows = [match for line in lines[1 : _MOST_BOOTS + 1] if (match := _ROW.match(line))]
    endings = ("clean", "unclean")
    journal = next((ending for ending in endings if f"journal {ending}" in lines), "")
    return Boots.model_validate(
        {
            "now": _seconds(now),
            "uptime": _seconds(uptime),
            "rows": [{"kind": row[1], "at": _moment(row[2])} for row in rows],
            "journal": journal,
        }
    )


def _moment(text: str) -> float:
    read = datetime.strptime(" ".join(text.split()), "%a %b %d %H:%M:%S %Y")
    return read.replace(tzinfo=timezone.utc).timestamp()


_DF = re.compile(
    r"(bytes|inodes)\t.*?\s(\d+|-)\s+(\d+|-)\s+(\d+|-)\s+(?:\d+%|-)\s+(/.*)", re.DOTALL
)


def parse_disks(text: str) -> tuple[Disk, ...]:
    """Parse `path MOUNT PATH`, then rows of `df -Pk` and `df -Pi`, each behind `bytes` or `inodes`.

    `closed MOUNT` is one that is mounted read-only.

    A mount point without a row of sizes is one that `df` could not read: an error.
    """
    lines = lines_of(text)
    if len(lines) > _MOST_DISKS:
        raise Unreadable(f"{len(lines)} lines, more than {_MOST_DISKS}")
    paths: dict[str, list[str]] = {}
    rows: dict[tuple[str, str], re.Match[str]] = {}
    for line in lines:
        if line.startswith("path\t"):
            _, point, path = line.split("\t")
            paths.setdefault(checked.path(point), []).append(checked.path(path))
        elif match := _DF.fullmatch(line):
            rows[match[1], match[5]] = match
    closed = {line.partition("\t")[2] for line in lines if line.startswith("closed\t")}
    missing = [point for point in paths if ("bytes", point) not in rows]
    if missing:
        raise Unreadable(f"df shows no size of {missing[0]}: {lines[-1][:100]!r}")
    return tuple(
        _disk(point, names, rows["bytes", point], rows.get(("inodes", point)), point in closed)
        for point, names in paths.items()
    )


def _disk(
    point: str,
    paths: Sequence[str],
    sizes: re.Match[str],
    inodes: re.Match[str] | None,
    is_closed: bool,
) -> Disk:
    used, available = (checked.number(each, _MOST) for each in (sizes[3], sizes[4]))
    # A file system that makes inodes as it needs them reports none.
    has_inodes = inodes is not None and inodes[2] not in ("0", "-")
    return Disk(
        point=point,
        paths=tuple(paths),
        used=used * 1024,
        available=available * 1024,
        inodes_used=checked.number(inodes[3], _MOST) if inodes and has_inodes else None,
        inodes_free=checked.number(inodes[4], _MOST) if inodes and has_inodes else None,
        read_only=is_closed,
    )


def parse_mounts(text: str) -> Mounts:
    """Parse `mount POINT SOURCE KIND ro|rw` and `auto POINT`; a blank in a name is \\040."""
    rows = by_word(text, words="mount auto")
    found = [row.split(" ") for row in rows["mount"]]
    return Mounts(
        found=tuple(
            Mount(point=point, source=source, kind=kind, read_only=mode == "ro")
            for point, source, kind, mode in found
        ),
        automatic=tuple(rows["auto"]),
    )


_NAME = checked.Form("a host name", re.compile(r"[\x21-\x7e]{1,253}"))
_OFFSET = checked.Form("an offset of local time", re.compile(r"[+-][0-9]{4}"))
_BOOT = checked.Form(
    "the id of a boot", re.compile(r"([0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12})?")
)


def parse_name(text: str) -> Name:
    """Parse `name NAME`, `boot ID`, `address ADDRESS` (?: no answer) for each, `offset +HHMM`."""
    words, addresses = pairs(text), by_word(text)["address"]
    return Name(
        name=_NAME(words.get("name", "")),
        boot=_BOOT(words.get("boot", "")),
        addresses=None if "?" in addresses else checked.addresses(addresses),
        offset=_OFFSET(words.get("offset", "")),
    )


PARSERS: Parsers = {
    "host.swap": ("swap", parse_swap),
    "host.memory": ("memory", parse_memory),
    "host.log": ("log", parse_log),
    "host.boots": ("boots", parse_boots),
    "host.disks": ("disks", parse_disks),
    "host.name": ("name", parse_name),
    "host.mounts": ("mounts", parse_mounts),
    **newcomer.PARSERS,
    **settings.PARSERS,
}


class HostFact(AreaFact):
    """Returns `HostState` as a dict: {"memory": {"total": 270582939648, ...}, "disks": [...]}."""

    sections_for = staticmethod(sections)
    state = HostState
    parsers = PARSERS

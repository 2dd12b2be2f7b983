"""Host rules about newcomers: the system, its packages and its disks suffice for the deploy."""

from collections.abc import Iterator

from gpu_node.drift.engine.finding import Severity
from gpu_node.drift.engine.rule import At, Fault, check
from gpu_node.drift.engine.subject import Path
from gpu_node.drift.host.rules_disk import largest
from gpu_node.drift.tables import rows
from gpu_node.drift.units import size
from gpu_node.facts.host.newcomer import System
from gpu_node.facts.host.state import Disk, HostState
from gpu_node.facts.node import NodeState
from gpu_node.facts.packages.sources import PackageSource
from gpu_node.inventories.versions import numbers
from gpu_node.inventories.wanted import NodeWanted

# Architectures: one that everything was tried on, and one that should do.
_TRIED, _UNTRIED = ("x86_64",), ("aarch64",)
# As many times as much as is needed at least.
_PLENTY = 3
# The headers of one kernel are 20000 files and more.
_INODES = 50_000
_MIB = 1024**2
# How many repositories are named that do not answer.
_SHOWN = 3


@check("host.system")
def system(at: At[HostState]) -> Iterator[Fault]:
    if at.here.system is not None:
        yield from _release(at.here.system)
        yield from _architecture(at.here.system.machine)


def _release(installed: System) -> Iterator[Fault]:
    known = {row["id"]: row for row in rows("systems.tsv")}
    row, version = known.get(installed.id), numbers(installed.version)
    if row is None:
        supported = ", ".join(
            f"{each['name']} {each['first']}"
            + (f" to {each['last']}" if each["last"] != each["first"] else "")
            for each in known.values()
        )
        yield _unfit("system", release(installed), supported, "no step supports it", "error")
    elif version and version < numbers(row["first"]):
        why = f"{row['name']} {row['first']} is the oldest that the steps support"
        yield _unfit("system", release(installed), "a newer release", why, "error")
    elif not version or version[: len(numbers(row["last"]))] > numbers(row["last"]):
        why = f"{row['name']} {row['last']} is the newest that was tested"
        yield _unfit("system", release(installed), "a release that was tested", why, "warning")


def release(installed: System) -> str:
    """Return a system's release by the name that it gives itself."""
    return installed.name or f"{installed.id} {installed.version}"


def _architecture(machine: str) -> Iterator[Fault]:
    if machine in _UNTRIED:
        why = "it was not tested, and it needs other files of cmake and NCCL"
        yield _unfit("architecture", machine, ", ".join(_TRIED), why, "warning")
    elif machine not in _TRIED:
        why = "there is no driver and no NCCL for it"
        yield _unfit("architecture", machine, ", ".join((*_TRIED, *_UNTRIED)), why, "error")


_NEXT = {
    ("system", "error"): "install one of the releases that are supported",
    ("system", "warning"): "check the dry run carefully",
    ("architecture", "error"): "use another server",
    ("architecture", "warning"): "name the files of this architecture in the inventory",
}


def _unfit(subject: str, found: str, wanted: str, why: str, severity: Severity) -> Fault:
    fix = _NEXT[subject, severity]
    return Fault(subject, found, wanted, why, fix, severity=severity)


@check("host.space-for-deploy")
def space_for_deploy(at: At[HostState]) -> Iterator[Fault]:
    for disk in at.here.disks or ():
        yield from _space(disk)


def needs(disk: Disk) -> int:
    """Return the bytes that a deploy may need on a file system: those of its folders add up."""
    mib = {row["path"]: int(row["mib"]) for row in rows("space.tsv")}
    return sum(mib.get(path, 0) for path in disk.paths) * _MIB


def room(disk: Disk) -> str:
    """Return a file system's free bytes and what else of the deploy is on it."""
    mib = {row["path"] for row in rows("space.tsv")}
    below = ", ".join(path for path in disk.paths if path != disk.point and path in mib)
    return f"{size(disk.available)} free" + (f" (with {below})" if below else "")


def _space(disk: Disk) -> Iterator[Fault]:
    need, free = needs(disk), disk.inodes_free
    make_room = f"make room on {disk.point}: {largest(disk.point)}"
    if disk.available < max(need, _MIB):
        why = f"packages, headers and builds may need {size(need)} there" if need else "it is full"
        yield _too_small(disk, room(disk), size(max(need, _MIB)), why, make_room)
    elif free is not None and free < _INODES and need:
        why = "a kernel's headers alone are 20000 files"
        make_room = f"make room on {disk.point}: {largest(disk.point, by_inodes=True)}"
        yield _too_small(disk, f"{free} inodes free", f"{_INODES} inodes", why, make_room)
    elif disk.available < _PLENTY * need:
        why = f"{size(need)} may be needed there, and more for updates"
        yield _too_small(disk, room(disk), size(_PLENTY * need), why, make_room, "warning")


def _too_small(
    disk: Disk, found: str, wanted: str, why: str, fix: str, severity: Severity = "error"
) -> Fault:
    return Fault(Path(disk.point), found, f"{wanted} free", why, fix, severity=severity)


def _grave(wanted: NodeWanted) -> Severity:
    """Return the severity of missing packages: an error where the inventory wants some."""
    by_nccl = wanted.nccl is not None and wanted.nccl.packages is True
    return "error" if wanted.driver is not None or by_nccl else "warning"


@check("host.package-manager")
def package_manager(at: At) -> Iterator[Fault]:
    if at.node.nccl.manager == "none":
        yield Fault(
            subject="package manager",
            found="none",
            wanted="apt-get, dnf or yum",
            cause="neither apt-get nor dnf nor yum is installed: nothing can be installed",
            fix="use a system of the apt or the rpm family",
            severity=_grave(at.wanted),
        )
    elif at.node.host.package_lock:
        held = at.node.host.package_lock
        holders = ", ".join(f"pid {each.pid} ({each.command})" for each in held)
        yield Fault(
            subject="package manager",
            found=at.node.nccl.manager or "unknown",
            wanted="its lock is free",
            cause=f"its lock is held: a deploy waits for {holders}",
            fix="wait until it ends",
            severity="warning",
        )


@check("host.repositories")
def repositories(at: At) -> Iterator[Fault]:
    sources = at.node.host.repositories
    if sources is None:
        return
    bad = [source for source in sources if source.state == "bad"]
    unclear = [source for source in sources if source.state == "unknown"]
    if bad or not sources:
        # yum and dnf end at the first one that is silent; apt takes what it has.
        passes = at.node.nccl.manager == "apt-get" and len(bad) < len(sources)
        yield Fault(
            subject="repositories",
            found=answering(sources),
            wanted="each of them answers",
            cause=_reasons(bad) if bad else "nothing can be installed",
            fix=_cure(at.node) if bad else "add some, or a mirror",
            severity="warning" if passes else _grave(at.wanted),
        )
    elif unclear:
        yield Fault(
            subject="repositories",
            found=answering(sources),
            wanted="each of them answers",
            cause=_reasons(unclear),
            fix="check whether they answer",
            severity="warning",
        )


def answering(sources: tuple[PackageSource, ...]) -> str:
    """Return how many repositories answer, as text."""
    well = [source for source in sources if source.state == "ok"]
    return f"{len(well)} of {len(sources)} answer" if sources else "none"


def _reasons(sources: list[PackageSource]) -> str:
    more = f"; and {len(sources) - _SHOWN} more" if len(sources) > _SHOWN else ""
    return "; ".join(f"{source.name}: {source.why}" for source in sources[:_SHOWN]) + more


def _cure(state: NodeState) -> str:
    """Return what a system needs that the rule's manual repair does not say; empty: nothing."""
    system = state.host.system
    if system is not None and (system.id, system.version.partition(".")[0]) == ("centos", "7"):
        return (
            "CentOS 7 has ended and its mirror list is gone: in /etc/yum.repos.d comment out "
            "mirrorlist, and set baseurl to its archive (the vault) or to your mirror"
        )
    return ""

"""NCCL rules about the system's packages: one version, the one torch is built for, and held."""

from collections import defaultdict
from collections.abc import Collection, Iterator

from gpu_node.drift.engine.rule import At, Fault, check
from gpu_node.drift.engine.subject import SystemPackages
from gpu_node.drift.nccl.libnccl import (
    BY_MANAGER,
    FAILS,
    bites,
    is_held,
    is_managed,
    is_version,
    own,
    release,
    repository_url,
    target,
    unclear,
)
from gpu_node.drift.nccl.package_locks import barriers
from gpu_node.facts.nccl.libnccl import DEB, RPM
from gpu_node.facts.nccl.state import NcclState
from gpu_node.inventories.fields.kinds import FAMILIES
from gpu_node.inventories.wanted import NcclWanted

_OF_TORCH = "the version that torch is built for"
_SPARED = (
    "torch's wheels load their own libnccl by DT_RPATH and never this one; nccl-tests, MPI "
    "programs and torch built from source do"
)
# What leaves one version, whichever are installed; each package needs libnccl of its own version.
_TRANSACTION = {
    "rpm": "rpm -U --oldpackage --replacepkgs, which removes their other versions",
    "apt": "apt-get install --reinstall --allow-downgrades",
}


def _way(state: NcclState, wanted: NcclWanted, names: Collection[str], again: str = "") -> str:
    version, more = release(state, wanted), ""
    for rule, first in (
        ("nccl.environment-missing", state.absent),
        ("nccl.environment-unclear", [prefix for prefix, _ in unclear(state)]),
    ):
        if version is None and first:
            return f"first repair {', '.join(first)}, see {rule}: its torch decides the version"
    if version is None:
        return "name a version in the inventory, such as nccl: {version: 2.18.1+cuda12.1}"
    if not is_managed(state, wanted):
        keys = "environments: [...], packages: true" if state.discovered else "packages: true"
        more += f" (nccl: {{{keys}}} lets the deploy do it)"
    elif barriers(state, version):
        more += "; an administrator's lock prevents that: see nccl.package-locked"
    if family := FAMILIES.get(state.manager or ""):
        together = ", ".join(dict.fromkeys([*names, *_versions(state)]))
        url = repository_url(state.manager, wanted)
        source = f" of {url}" if url else ""
        more = f": {together}{source} with one {_TRANSACTION[family]}{more}"
    return f"install {', '.join(names)} {version}{again}{more}"


def _versions(state: NcclState) -> dict[str, list[str]]:
    """Return the versions of each package."""
    versions: dict[str, list[str]] = defaultdict(list)
    for package in own(state):
        if package.version not in versions[package.name]:  # it may be there for two architectures
            versions[package.name].append(package.version)
    return versions


@check("nccl.duplicate-packages")
def duplicate_packages(at: At[NcclState, NcclWanted]) -> Iterator[Fault]:
    for name, several in _versions(at.here).items():
        if len(several) > 1:
            yield Fault(
                subject=SystemPackages((name,)),
                found=", ".join(several),
                wanted=release(at.here, at.want) or "one version",
                fix=_way(at.here, at.want, (name,)),
                fixable=is_managed(at.here, at.want),
                severity=None if at.want.packages or bites(at.here) else "warning",
            )


@check("nccl.package-locked")
def package_locked(at: At[NcclState, NcclWanted]) -> Iterator[Fault]:
    version = release(at.here, at.want)
    if version is None or not is_managed(at.here, at.want):
        return
    for barrier in barriers(at.here, version) or ():
        yield Fault(
            subject=barrier.names,
            found=f"{barrier.does}: {barrier.where}",
            wanted=version,
            severity="error" if bites(at.here) else None,
        )


@check("nccl.package-mismatch")
def package_mismatch(at: At[NcclState, NcclWanted]) -> Iterator[Fault]:
    version, loads = target(at.here, at.want), bites(at.here)
    wrong: dict[str, list[str]] = defaultdict(list)
    for name, several in _versions(at.here).items():
        if version and len(several) == 1 and not is_version(several[0], version):
            wrong[several[0]].append(name)
    for other, names in wrong.items():
        yield Fault(
            subject=SystemPackages(tuple(names)),
            found=other,
            wanted=release(at.here, at.want) or version or "",
            cause=f"{', '.join(loads)} would load it: {FAILS}" if loads else _SPARED,
            fix=_way(at.here, at.want, names),
            fixable=is_managed(at.here, at.want),
            severity="error" if loads else None,
            # The other packages have the headers.
            explains="none" if {RPM[0], DEB[0]}.isdisjoint(names) else "all",
        )


@check("nccl.package-missing")
def package_missing(at: At[NcclState, NcclWanted]) -> Iterator[Fault]:
    if at.want.packages is not True or at.here.packages is None or at.here.manager is None:
        return
    if at.here.manager == "none":
        yield Fault(
            subject="libnccl",
            found="no apt, dnf or yum is installed",
            wanted=_OF_TORCH,
            cause="the inventory wants the system's libnccl, but there is no package manager to "
            "install it",
            fix="remove packages: true from this node's nccl, or install it manually",
            fixable=False,
        )
    there = _versions(at.here)
    missing = tuple(name for name in BY_MANAGER[at.here.manager] if name not in there)
    if missing:
        yield Fault(
            subject=SystemPackages(missing),
            found="not installed",
            wanted=release(at.here, at.want) or _OF_TORCH,
            fix=_way(at.here, at.want, missing),
            fixable=is_managed(at.here, at.want),
        )


@check("nccl.package-damaged")
def package_damaged(at: At[NcclState, NcclWanted]) -> Iterator[Fault]:
    several = any(len(versions) > 1 for versions in _versions(at.here).values())
    if not at.here.files or several:  # nccl.duplicate-packages reports several versions
        return
    loads = bites(at.here)
    names = tuple(_versions(at.here))
    yield Fault(
        subject=SystemPackages(names),
        found=f"missing or changed: {', '.join(at.here.files)}",
        wanted="the files of the packages",
        cause=f"{', '.join(loads)} cannot load it, or load another: {FAILS}"
        if loads
        else "rpm and dpkg list the packages as installed, and programs that load the library "
        "fail: a manual removal of another version removes the files of this one, too",
        fix=_way(at.here, at.want, names, " again"),
        fixable=is_managed(at.here, at.want),
        severity="error" if loads else None,
    )


@check("nccl.package-unheld")
def package_unheld(at: At[NcclState, NcclWanted]) -> Iterator[Fault]:
    version = target(at.here, at.want)
    if at.want.packages is not True or version is None or at.here.locks is None:
        return
    loose = [
        package
        for package in own(at.here)
        if is_version(package.version, version) and not is_held(package, at.here.locks)
    ]
    if loose:
        deb = loose[0].kind == "deb"
        held = " ".join(each.name if deb else f"{each.name}-{each.version}" for each in loose)
        yield Fault(
            subject=SystemPackages(tuple(dict.fromkeys(each.name for each in loose))),
            found="not held",
            wanted="held by apt-mark" if deb else "held by versionlock",
            fix=f"apt-mark hold {held}" if deb else f"{at.here.manager} versionlock add {held}",
            fixable=is_managed(at.here, at.want),
        )

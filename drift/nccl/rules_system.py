"""NCCL rules about the system's packages: one version, the one torch is built for, and held."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from gpu_node.drift.engine.rule import Fault, on_node, rule
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
    target,
)
from gpu_node.drift.nccl.package_locks import barriers
from gpu_node.facts.nccl.state import NcclState
from gpu_node.inventories.schema import NcclWanted

_SPARED = (
    "torch's wheels load their own libnccl by DT_RPATH and never this one; nccl-tests, MPI "
    "programs and torch built from source do"
)
_ALONE = (
    "Use the NCCL of an environment, such as nvidia-nccl-cu12 for CUDA 12; for programs outside of "
    "Python put its lib folder into LD_LIBRARY_PATH."
)


def _way(found: NcclState, wanted: NcclWanted, names: str, more: str = "") -> str:
    version = release(found, wanted)
    if version is None:
        return "name a version in the inventory, such as nccl: {version: 2.18.1+cuda12.1}"
    if not is_managed(found, wanted):
        keys = "environments: [...], packages: true" if found.discovered else "packages: true"
        more += f" (nccl: {{{keys}}} lets the deploy do it)"
    elif barriers(found, version):
        more += "; an administrator's lock prevents that: see nccl.package-locked"
    return f"install {names} {version}{more}"


def _versions(found: NcclState) -> dict[str, list[str]]:
    """Return the versions of each package."""
    versions: dict[str, list[str]] = defaultdict(list)
    for package in own(found):
        if package.version not in versions[package.name]:  # it may be there for two architectures
            versions[package.name].append(package.version)
    return versions


@rule(
    "nccl.duplicate-packages",
    ("error", "warning"),
    step="nccl",
    always=True,
    key="nccl.packages",
    why="Several versions own the same files: which one a program gets depends on the order"
    " of installation.",
    manual="Remove all versions but the right one.",
    repair="Installs the right version of the libnccl packages, and removes the others in the "
    "same transaction.",
    alone=_ALONE,
)
def duplicate_packages(found: NcclState, wanted: NcclWanted) -> Iterator[Fault]:
    """The system has one libnccl package in several versions."""
    for name, several in _versions(found).items():
        if len(several) > 1:
            yield Fault(
                subject=SystemPackages((name,)),
                found=", ".join(several),
                wanted=release(found, wanted) or "one version",
                cause="they own the same files: which one programs get depends on the "
                "order of installation, and the next update may change it; a removal by pattern "
                "(rpm -qa | grep nccl) removes other packages too",
                fix=_way(found, wanted, name, "; remove the others in the same transaction"),
                fixable=is_managed(found, wanted),
                severity=None if wanted.packages or bites(found) else "warning",
            )


@rule(
    "nccl.package-locked",
    ("warning", "error"),
    key="nccl.packages",
    why="No run of gpu-node wrote this lock, so the deploy respects it.",
    manual="Remove the lock, or replace it: --data override_locks=true.",
    alone=_ALONE,
)
def package_locked(found: NcclState, wanted: NcclWanted) -> Iterator[Fault]:
    """An administrator's lock, exclude or pin keeps the wanted libnccl from being installed."""
    version = release(found, wanted)
    if version is None or not is_managed(found, wanted):
        return
    for each in barriers(found, version) or ():
        yield Fault(
            subject=each.names,
            found=f"{each.does}: {each.where}",
            wanted=version,
            cause="no run of gpu-node wrote this lock, so the deploy does not change libnccl "
            "against it",
            fix="remove the lock, or replace it: --data override_locks=true; or remove packages: "
            "true from this node's nccl",
            fixable=False,
            severity="error" if bites(found) else None,
        )


@rule(
    "nccl.package-mismatch",
    ("warning", "error"),
    step="nccl",
    because_of=(on_node(package_locked),),
    under="nccl.duplicate-packages",
    always=True,
    key="nccl.packages",
    why="Programs that use the system's libnccl, such as nccl-tests and MPI programs, load "
    "another version than torch.",
    manual="Install the libnccl packages of the version that torch is built for.",
    repair="Installs and holds the libnccl packages of the right version.",
    alone=_ALONE,
)
def package_mismatch(found: NcclState, wanted: NcclWanted) -> Iterator[Fault]:
    """The system's libnccl is not of the version that torch is built for."""
    version, loads = target(found, wanted), bites(found)
    wrong: dict[str, list[str]] = defaultdict(list)
    for name, several in _versions(found).items():
        if version and len(several) == 1 and not is_version(several[0], version):
            wrong[several[0]].append(name)
    for other, names in wrong.items():
        yield Fault(
            subject=SystemPackages(tuple(names)),
            found=other,
            wanted=release(found, wanted) or version or "",
            cause=f"{', '.join(loads)} would load it: {FAILS}" if loads else _SPARED,
            fix=_way(found, wanted, ", ".join(names)),
            fixable=is_managed(found, wanted),
            severity="error" if loads else None,
        )


@rule(
    "nccl.package-missing",
    "warning",
    step="nccl",
    because_of=(on_node(package_locked),),
    under="nccl.duplicate-packages",
    key="nccl.packages",
    why="nccl-tests, MPI programs and builds of CUDA extensions need the system's libnccl.",
    manual="Install the libnccl packages of the version that torch is built for.",
    repair="Installs and holds the libnccl packages.",
    alone=_ALONE,
)
def package_missing(found: NcclState, wanted: NcclWanted) -> Iterator[Fault]:
    """The inventory wants the system's libnccl, and a package of it is not installed."""
    if wanted.packages is not True or found.packages is None or found.manager is None:
        return
    if found.manager == "none":
        yield Fault(
            subject="libnccl",
            found="no apt, dnf or yum is installed",
            wanted="the version that torch is built for",
            cause="the inventory wants the system's libnccl, but there is no package manager to "
            "install it",
            fix="remove packages: true from this node's nccl, or install it manually",
            fixable=False,
        )
    there = _versions(found)
    missing = tuple(name for name in BY_MANAGER[found.manager] if name not in there)
    if missing:
        yield Fault(
            subject=SystemPackages(missing),
            found="not installed",
            wanted=release(found, wanted) or "the version that torch is built for",
            cause="nccl-tests, MPI programs and builds of CUDA extensions need the system's "
            "libnccl, its header and its archive, of the version that torch loads",
            fix=_way(found, wanted, ", ".join(missing)),
            fixable=is_managed(found, wanted),
        )


@rule(
    "nccl.package-damaged",
    ("warning", "error"),
    step="nccl",
    always=True,
    key="nccl.packages",
    why="The package manager lists the packages as installed, but programs cannot load the "
    "library.",
    manual="Reinstall the packages.",
    repair="Reinstalls the libnccl packages.",
    alone=_ALONE,
)
def package_damaged(found: NcclState, wanted: NcclWanted) -> Iterator[Fault]:
    """Files of the system's libnccl are missing, or not what its package brought."""
    several = any(len(versions) > 1 for versions in _versions(found).values())
    if not found.files or several:  # nccl.duplicate-packages reports several versions
        return
    loads = bites(found)
    names = tuple(_versions(found))
    yield Fault(
        subject=SystemPackages(names),
        found=f"missing or changed: {', '.join(found.files)}",
        wanted="the files of the packages",
        cause=f"{', '.join(loads)} cannot load it, or load another: {FAILS}"
        if loads
        else "rpm and dpkg list the packages as installed, and programs that load the library "
        "fail: a manual removal of another version removes the files of this one, too",
        fix=_way(found, wanted, ", ".join(names), " again"),
        fixable=is_managed(found, wanted),
        severity="error" if loads else None,
    )


@rule(
    "nccl.package-unheld",
    "warning",
    step="nccl",
    under="nccl.duplicate-packages",
    key="nccl.packages",
    why="The next update of the system installs a newer build on this node alone.",
    manual="Hold the packages with apt-mark hold, or with versionlock.",
    repair="Holds the libnccl packages.",
    alone="Run the report before a long job: an update can replace the packages.",
)
def package_unheld(found: NcclState, wanted: NcclWanted) -> Iterator[Fault]:
    """The right libnccl is installed, and the next update of the system would replace it."""
    version = target(found, wanted)
    if wanted.packages is not True or version is None or found.locks is None:
        return
    for package in own(found):
        if is_version(package.version, version) and not is_held(package, found.locks):
            yield Fault(
                subject=SystemPackages((package.name,)),
                found="not held",
                wanted="held by apt-mark" if package.kind == "deb" else "held by versionlock",
                cause="the repository has newer builds, for other CUDAs too: the next update of "
                "the system installs one, only on this node",
                fix=f"apt-mark hold {package.name}"
                if package.kind == "deb"
                else f"{found.manager} versionlock add {package.name}-{package.version}",
                fixable=is_managed(found, wanted),
            )

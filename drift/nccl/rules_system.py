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
    unclear,
)
from gpu_node.drift.nccl.package_locks import barriers
from gpu_node.facts.nccl.state import NcclState
from gpu_node.inventories.schema import NcclWanted

_OF_TORCH = "the version that torch is built for"
_INSTALL = f"install the libnccl packages of {_OF_TORCH}"
_SPARED = (
    "torch's wheels load their own libnccl by DT_RPATH and never this one; nccl-tests, MPI "
    "programs and torch built from source do"
)
_ALONE = (
    "Use the NCCL of an environment, such as nvidia-nccl-cu12 for CUDA 12; for programs outside of "
    "Python put its lib folder into LD_LIBRARY_PATH."
)


def _way(state: NcclState, wanted: NcclWanted, names: str, more: str = "") -> str:
    version = release(state, wanted)
    first = ", ".join(prefix for prefix, _ in unclear(state))
    if version is None and first:
        return f"first repair {first}, see nccl.environment-unclear: its torch decides the version"
    if version is None:
        return "name a version in the inventory, such as nccl: {version: 2.18.1+cuda12.1}"
    if not is_managed(state, wanted):
        keys = "environments: [...], packages: true" if state.discovered else "packages: true"
        more += f" (nccl: {{{keys}}} lets the deploy do it)"
    elif barriers(state, version):
        more += "; an administrator's lock prevents that: see nccl.package-locked"
    return f"install {names} {version}{more}"


def _versions(state: NcclState) -> dict[str, list[str]]:
    """Return the versions of each package."""
    versions: dict[str, list[str]] = defaultdict(list)
    for package in own(state):
        if package.version not in versions[package.name]:  # it may be there for two architectures
            versions[package.name].append(package.version)
    return versions


@rule(
    "nccl.duplicate-packages",
    ("error", "warning"),
    step="nccl",
    always=True,
    key="nccl.packages",
    why="several versions own the same files: which one programs get depends on the order of "
    "installation, and the next update may change it; a removal by pattern (rpm -qa | "
    "grep nccl) removes other packages too",
    manual="remove all versions but the right one",
    repair="Installs the right version of the libnccl packages, and removes the others in the "
    "same transaction.",
    alone=_ALONE,
)
def duplicate_packages(state: NcclState, wanted: NcclWanted) -> Iterator[Fault]:
    """The system has one libnccl package in several versions."""
    for name, several in _versions(state).items():
        if len(several) > 1:
            yield Fault(
                subject=SystemPackages((name,)),
                found=", ".join(several),
                wanted=release(state, wanted) or "one version",
                fix=_way(state, wanted, name, "; remove the others in the same transaction"),
                fixable=is_managed(state, wanted),
                severity=None if wanted.packages or bites(state) else "warning",
            )


@rule(
    "nccl.package-locked",
    ("warning", "error"),
    key="nccl.packages",
    why="no run of gpu-node wrote this lock, so the deploy does not change libnccl against it",
    manual="remove the lock, or replace it: --data override_locks=true; or remove packages: "
    "true from this node's nccl",
    alone=_ALONE,
)
def package_locked(state: NcclState, wanted: NcclWanted) -> Iterator[Fault]:
    """An administrator's lock, exclude or pin keeps the wanted libnccl from being installed."""
    version = release(state, wanted)
    if version is None or not is_managed(state, wanted):
        return
    for barrier in barriers(state, version) or ():
        yield Fault(
            subject=barrier.names,
            found=f"{barrier.does}: {barrier.where}",
            wanted=version,
            severity="error" if bites(state) else None,
        )


@rule(
    "nccl.package-mismatch",
    ("warning", "error"),
    step="nccl",
    because_of=(on_node(package_locked),),
    under="nccl.duplicate-packages",
    always=True,
    key="nccl.packages",
    why="programs that use the system's libnccl, such as nccl-tests and MPI programs, load "
    "another version than torch",
    manual=_INSTALL,
    repair="Installs and holds the libnccl packages of the right version.",
    alone=_ALONE,
)
def package_mismatch(state: NcclState, wanted: NcclWanted) -> Iterator[Fault]:
    """The system's libnccl is not of the version that torch is built for."""
    version, loads = target(state, wanted), bites(state)
    wrong: dict[str, list[str]] = defaultdict(list)
    for name, several in _versions(state).items():
        if version and len(several) == 1 and not is_version(several[0], version):
            wrong[several[0]].append(name)
    for other, names in wrong.items():
        yield Fault(
            subject=SystemPackages(tuple(names)),
            found=other,
            wanted=release(state, wanted) or version or "",
            cause=f"{', '.join(loads)} would load it: {FAILS}" if loads else _SPARED,
            fix=_way(state, wanted, ", ".join(names)),
            fixable=is_managed(state, wanted),
            severity="error" if loads else None,
        )


@rule(
    "nccl.package-missing",
    "warning",
    step="nccl",
    because_of=(on_node(package_locked),),
    under="nccl.duplicate-packages",
    key="nccl.packages",
    why="nccl-tests, MPI programs and builds of CUDA extensions need the system's libnccl, "
    "its header and its archive, of the version that torch loads",
    manual=_INSTALL,
    repair="Installs and holds the libnccl packages.",
    alone=_ALONE,
)
def package_missing(state: NcclState, wanted: NcclWanted) -> Iterator[Fault]:
    """The inventory wants the system's libnccl, and a package of it is not installed."""
    if wanted.packages is not True or state.packages is None or state.manager is None:
        return
    if state.manager == "none":
        yield Fault(
            subject="libnccl",
            found="no apt, dnf or yum is installed",
            wanted=_OF_TORCH,
            cause="the inventory wants the system's libnccl, but there is no package manager to "
            "install it",
            fix="remove packages: true from this node's nccl, or install it manually",
            fixable=False,
        )
    there = _versions(state)
    missing = tuple(name for name in BY_MANAGER[state.manager] if name not in there)
    if missing:
        yield Fault(
            subject=SystemPackages(missing),
            found="not installed",
            wanted=release(state, wanted) or _OF_TORCH,
            fix=_way(state, wanted, ", ".join(missing)),
            fixable=is_managed(state, wanted),
        )


@rule(
    "nccl.package-damaged",
    ("warning", "error"),
    step="nccl",
    always=True,
    key="nccl.packages",
    why="the package manager lists the packages as installed, but programs cannot load the library",
    manual="reinstall the packages",
    repair="Reinstalls the libnccl packages.",
    alone=_ALONE,
)
def package_damaged(state: NcclState, wanted: NcclWanted) -> Iterator[Fault]:
    """Files of the system's libnccl are missing, or not what its package brought."""
    several = any(len(versions) > 1 for versions in _versions(state).values())
    if not state.files or several:  # nccl.duplicate-packages reports several versions
        return
    loads = bites(state)
    names = tuple(_versions(state))
    yield Fault(
        subject=SystemPackages(names),
        found=f"missing or changed: {', '.join(state.files)}",
        wanted="the files of the packages",
        cause=f"{', '.join(loads)} cannot load it, or load another: {FAILS}"
        if loads
        else "rpm and dpkg list the packages as installed, and programs that load the library "
        "fail: a manual removal of another version removes the files of this one, too",
        fix=_way(state, wanted, ", ".join(names), " again"),
        fixable=is_managed(state, wanted),
        severity="error" if loads else None,
    )


@rule(
    "nccl.package-unheld",
    "warning",
    step="nccl",
    under="nccl.duplicate-packages",
    key="nccl.packages",
    why="the repository has newer builds, for other CUDAs too: the next update of the system "
    "installs one, only on this node",
    manual="hold the packages with apt-mark hold, or with versionlock",
    repair="Holds the libnccl packages.",
    alone="Run the report before a long job: an update can replace the packages.",
)
def package_unheld(state: NcclState, wanted: NcclWanted) -> Iterator[Fault]:
    """The right libnccl is installed, and the next update of the system would replace it."""
    version = target(state, wanted)
    if wanted.packages is not True or version is None or state.locks is None:
        return
    for package in own(state):
        if is_version(package.version, version) and not is_held(package, state.locks):
            yield Fault(
                subject=SystemPackages((package.name,)),
                found="not held",
                wanted="held by apt-mark" if package.kind == "deb" else "held by versionlock",
                fix=f"apt-mark hold {package.name}"
                if package.kind == "deb"
                else f"{state.manager} versionlock add {package.name}-{package.version}",
                fixable=is_managed(state, wanted),
            )

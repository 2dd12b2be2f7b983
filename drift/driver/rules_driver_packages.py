"""Driver rules about packages: what a server without a driver lacks, or has by half."""

from __future__ import annotations

from collections.abc import Iterator

from drift.driver import installed
from drift.installing import half, hindrance, is_full, to_install
from drift.module import brings_module, follows_dkms
from drift.rules.rule import Fault, rule
from facts.node import NodeState
from inventories.schema import DriverWanted, NodeWanted


def _way(found: NodeState, wanted: DriverWanted) -> str:
    """The way to the driver's packages, by the deploy."""
    version = wanted.version
    names = to_install(found, wanted)
    way = f"install {', '.join(names)} {version}"
    if brings_module(names) or not follows_dkms(found.driver):
        return way
    way = f"{way}, and build the module by dkms"
    if is_full(version):
        return way
    return (
        f"{way} in the next run: {version} is a branch, and which version comes is not known "
        'before (with a full one, such as "535.154.05", one run is enough)'
    )


@rule("driver.not-installed", "error", whole=True)
def not_installed(found: NodeState, wanted: NodeWanted) -> Iterator[Fault]:
    """No NVIDIA driver is installed: neither a library, nor a module, nor its sources."""
    state = found.driver
    readable = None not in (state.library, state.dkms, state.loaded, state.kernels)
    if wanted.driver is None or not readable or installed(state) is not None:
        return
    first = hindrance(found, wanted)
    yield Fault(
        subject="driver",
        found="none",
        wanted=wanted.driver.version or "one for its GPUs",
        cause="without it there are no GPUs for anybody",
        fix=first or _way(found, wanted.driver),
        fixable=first is None,
    )


@rule("driver.package-missing", "error", whole=True)
def package_missing(found: NodeState, wanted: NodeWanted) -> Iterator[Fault]:
    """Some of the driver's packages that the inventory names are there, and others are not."""
    lacking = half(found, wanted.driver) if wanted.driver else []
    if wanted.driver is None or not lacking:
        return
    there, first = found.driver.packages or {}, hindrance(found, wanted)
    begun = [name for name in lacking if name in there]
    yield Fault(
        subject=", ".join(lacking),
        found=f"installed by half: {', '.join(begun)}" if begun else "not installed",
        wanted=wanted.driver.version or "",
        cause="an installation was cut off, or a part of the driver was removed: what is left fits "
        "together by luck, and a program of the driver's may be missing",
        fix=first or _way(found, wanted.driver),
        fixable=first is None,
    )

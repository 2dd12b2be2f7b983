"""Driver rules about packages: what a server without a driver lacks, or has by half."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_node.drift.driver.install_plan import half, hindrance, is_full, to_install
from gpu_node.drift.driver.module import brings_module, follows_dkms
from gpu_node.drift.driver.target import has_no_gpu, installed
from gpu_node.drift.engine.rule import Fault, rule
from gpu_node.drift.engine.subject import SystemPackages
from gpu_node.drift.host.machine import is_container
from gpu_node.facts.node import NodeState
from gpu_node.inventories.schema import DriverWanted, NodeWanted


def _way(state: NodeState, wanted: DriverWanted) -> str:
    """The way to the driver's packages, by the deploy."""
    version = wanted.version
    names = to_install(state, wanted)
    way = f"install {', '.join(names)} {version}"
    if brings_module(names) or not follows_dkms(state.driver):
        return way
    way = f"{way}, and build the module by dkms"
    if is_full(version):
        return way
    return (
        f"{way} in the next run: {version} is a branch, and its full version is unknown "
        'until then (with a full version, such as "535.154.05", one run is enough)'
    )


@rule(
    "driver.not-installed",
    "error",
    whole=True,
    step="driver",
    always=True,
    key="driver.packages",
    stops="every",
    why="without a driver no program can use the GPUs",
    manual="install the driver packages of the wanted version with the package manager",
    repair="Installs the packages that the inventory names, builds the module with dkms, and "
    "loads it.",
    alone="Leave the node out of the job.",
)
def not_installed(node: NodeState, wanted: NodeWanted) -> Iterator[Fault]:
    """No NVIDIA driver is installed: neither a library, nor a module, nor its sources."""
    state = node.driver
    readable = None not in (state.library, state.dkms, state.loaded, state.kernels)
    # That a machine has no GPU is the one thing to report: driver.no-gpu, or driver.gpu-differs.
    if not readable or installed(state) is not None or has_no_gpu(node):
        return
    # If the inventory names none, a server with GPUs needs one; a container has its host's.
    if wanted.driver is None and (not state.devices or is_container(node)):
        return
    first = hindrance(node, wanted)
    version = wanted.driver.version if wanted.driver else None
    yield Fault(
        subject="driver",
        found="none",
        wanted=version or "one for its GPUs",
        fix=first or _way(node, wanted.driver or DriverWanted()),
        fixable=first is None,
    )


@rule(
    "driver.package-missing",
    "error",
    whole=True,
    step="driver",
    key="driver.packages and driver.version",
    why="an installation was cut off, or a part of the driver was removed: the remaining "
    "parts may not fit together, and a program of the driver may be missing",
    manual="install the missing packages in the version of the others",
    repair="Installs the missing driver packages.",
    alone="Leave the node out of the job.",
)
def package_missing(state: NodeState, wanted: NodeWanted) -> Iterator[Fault]:
    """Some of the driver's packages that the inventory names are there, and others are not."""
    lacking = half(state, wanted.driver) if wanted.driver else []
    if wanted.driver is None or not lacking:
        return
    there, first = state.driver.packages or {}, hindrance(state, wanted)
    begun = [name for name in lacking if name in there]
    yield Fault(
        subject=SystemPackages(tuple(lacking)),
        found=f"installed by half: {', '.join(begun)}" if begun else "not installed",
        wanted=wanted.driver.version or "",
        fix=first or _way(state, wanted.driver),
        fixable=first is None,
    )

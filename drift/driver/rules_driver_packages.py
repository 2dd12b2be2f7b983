"""Driver rules about packages: what a server without a driver lacks, or has by half."""

from collections.abc import Iterator

from gpu_node.drift.driver.install_plan import half, hindrance, is_full, to_install
from gpu_node.drift.driver.module import brings_module, follows_dkms
from gpu_node.drift.driver.target import has_no_gpu, installed
from gpu_node.drift.engine.rule import At, Fault, check
from gpu_node.drift.engine.subject import SystemPackages
from gpu_node.drift.host.machine import is_container
from gpu_node.facts.node import NodeState
from gpu_node.inventories.wanted import DriverWanted


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


@check("driver.not-installed")
def not_installed(at: At) -> Iterator[Fault]:
    state = at.node.driver
    readable = None not in (state.library, state.dkms, state.loaded, state.kernels)
    # That a machine has no GPU is the one thing to report: driver.no-gpu, or driver.gpu-differs.
    if not readable or installed(state) is not None or has_no_gpu(at.node):
        return
    # If the inventory names none, a server with GPUs needs one; a container has its host's.
    if at.wanted.driver is None and (not state.own_devices or is_container(at.node)):
        return
    first = hindrance(at.node, at.wanted)
    version = at.wanted.driver.version if at.wanted.driver else None
    yield Fault(
        subject="driver",
        found="none",
        wanted=version or "one for its GPUs",
        fix=first or _way(at.node, at.wanted.driver or DriverWanted()),
        fixable=first is None,
    )


@check("driver.package-missing")
def package_missing(at: At) -> Iterator[Fault]:
    lacking = half(at.node, at.wanted.driver) if at.wanted.driver else []
    if at.wanted.driver is None or not lacking:
        return
    there, first = at.node.driver.packages or {}, hindrance(at.node, at.wanted)
    begun = [name for name in lacking if name in there]
    yield Fault(
        subject=SystemPackages(tuple(lacking)),
        found=f"installed by half: {', '.join(begun)}" if begun else "not installed",
        wanted=at.wanted.driver.version or "",
        fix=first or _way(at.node, at.wanted.driver),
        fixable=first is None,
    )

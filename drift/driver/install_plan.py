"""Installing the driver: its packages that the inventory names, what bars them, what they bring."""

import re
from collections.abc import Sequence

from gpu_node.drift.driver.boot import bootable
from gpu_node.drift.driver.module import (
    brings_dkms,
    brings_module,
    follows_dkms,
    signing_key,
    unsigned,
)
from gpu_node.drift.driver.target import (
    against_gpu,
    best,
    branch,
    installed,
    is_built,
    is_version,
    models,
    support,
)
from gpu_node.facts.driver.kernels import Module, Source
from gpu_node.facts.node import NodeState
from gpu_node.inventories.fields.kinds import FAMILIES
from gpu_node.inventories.wanted import DriverWanted, NodeWanted

# Ubuntu's nvidia-dkms-535-open, Debian's nvidia-open-kernel-dkms, the rpm family's.
_OPEN = re.compile(r"(^|-)open(-|$)")


def named(state: NodeState, wanted: DriverWanted) -> tuple[str, ...]:
    """Return the packages that the inventory names for a node's family; there may be none."""
    family = FAMILIES.get(state.nccl.manager or "")
    given = wanted.packages
    return (getattr(given, family) if given and family else None) or ()


def is_full(version: str | None) -> bool:
    """Whether a version names one driver, as 535.154.05 does, and no branch of several."""
    return version is not None and version.count(".") == 2


def is_version_of(package: str, version: str) -> bool:
    """Whether a package's version (535.154.05-1) is of a driver's version, or of its branch."""
    return re.match(rf"{re.escape(version)}(?![0-9])", package) is not None


def half(state: NodeState, wanted: DriverWanted) -> list[str]:
    """Return the named packages that lack beside others that are there, at the version wanted.

    A driver that came by none of them is another's, and nothing lacks.
    """
    there, version = state.driver.packages or {}, installed(state.driver)
    if not there or version is None or wanted.version is None:
        return []
    if not is_version(version, wanted.version):
        return []
    return [name for name in to_install(state, wanted) if not there.get(name)]


def to_install(state: NodeState, wanted: DriverWanted) -> list[str]:
    """Return the packages that the deploy installs or finishes, with those that are there.

    Where the node's module does not come by dkms, only what was installed by half is finished: any
    other package could bring dkms, and with it a module in the place of the one that works. Named
    packages that bring such a module are installed where a kernel has none.
    """
    names, there = list(named(state, wanted)), state.driver.packages or {}
    if follows_dkms(state.driver) or (brings_module(names) and not _has_all(state)):
        return names
    return [name for name in names if name in there]


def _has_all(state: NodeState) -> bool:
    """Whether each kernel that may boot has its module."""
    version, kernels = installed(state.driver), bootable(state.driver)
    return bool(kernels) and all(version and is_built(kernel, version) for kernel in kernels)


def hindrance(state: NodeState, wanted: NodeWanted) -> str | None:
    """Return why the deploy does not install the driver, as what to do first; None if it does."""
    driver = wanted.driver
    if driver is None:
        return "name the version: driver: {version: ...}"
    names, family = named(state, driver), FAMILIES.get(state.nccl.manager or "")
    if family is None:
        return "no apt, dnf or yum is installed: install the driver"
    if not names:
        return (
            "install it with its dkms package, so that dkms builds it "
            f"for each new kernel; or name its packages: driver: {{packages: {{{family}: [...]}}}}"
        )
    if state.driver.own_devices == ():
        return "no NVIDIA GPU is on the PCI bus: look for it in the server, and in its firmware"
    if driver.version is None:
        return "name the version of its packages: driver: {version: ...}"
    return (
        _remains(state)
        or _unfit(state, wanted, names, driver.version)
        or _unsigned(state, to_install(state, driver))
    )


def _unsigned(state: NodeState, names: list[str]) -> str | None:
    """Why the module that these packages build would not be loaded.

    A meta package, as nvidia-driver-535, brings dkms without naming it.
    """
    if not any(map(brings_dkms, names)) and (
        brings_module(names) or not follows_dkms(state.driver)
    ):
        return None
    why = unsigned(state.driver)
    return why and (
        f"{why}: enrol dkms's key first (mokutil --import {signing_key(state.driver)}, and confirm "
        "it at the console during a boot), or install a driver whose module is signed "
        "(Ubuntu: linux-modules-nvidia-BRANCH-generic)"
    )


def _remains(node: NodeState) -> str | None:
    """What another driver has left, which packages would be mixed with."""
    state = node.driver
    if state.packages:  # a run that was cut off has begun to install them
        return None
    kernels = state.kernels.installed if state.kernels else ()
    left = [
        f"{kernel.module.file} ({kernel.module.version})" for kernel in kernels if kernel.module
    ]
    if state.smi is not None and (state.smi.code is not None or state.smi.skipped):
        left.append("an nvidia-smi")
    if not left:
        return None
    return (
        f"parts of another driver are left ({', '.join(left)}): first remove it with the "
        "tool that installed it (NVIDIA's installer: nvidia-uninstall)"
    )


def _unfit(
    state: NodeState, wanted: NodeWanted, names: tuple[str, ...], version: str
) -> str | None:
    """Why these packages do not support a GPU of the node."""
    is_open = any(_OPEN.search(name) for name in names)
    gpus = models(state, wanted)
    for gpu in gpus:
        limits, why = support(gpu), against_gpu(branch(version), gpu)
        if why:
            return f"{why}: set driver: {{version: {best(gpus, state.toolchain.kernel)}}}"
        if is_open and limits and limits.open == "no":
            return f"the open module does not support {gpu}: name the proprietary packages"
        if not is_open and limits and limits.open == "only":
            return f"only the open module supports {gpu}: name its packages"
    return None


def with_driver(node: NodeState, names: Sequence[str], version: str) -> NodeState:
    """Return a bare node as it is once the packages are there: a library, and sources for dkms.

    What the sources are called is not known before: their name is empty. Packages of a module that
    is built already bring that for each kernel, and no sources.
    """
    state = node.driver
    if state.dkms is None or state.kernels is None:
        return node
    if brings_module(names):
        module = Module(file="", version=version, license="", signer="")
        installed = [each.model_copy(update={"module": module}) for each in state.kernels.installed]
        kernels = state.kernels.model_copy(update={"installed": tuple(installed)})
        driver = state.model_copy(update={"kernels": kernels, "library": version})
        return node.model_copy(update={"driver": driver})
    sources = (*state.dkms.sources, Source(name="", version=version))
    dkms = state.dkms.model_copy(update={"sources": sources})
    driver = state.model_copy(update={"dkms": dkms, "library": version})
    return node.model_copy(update={"driver": driver})

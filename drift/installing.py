"""Installing the driver: its packages that the inventory names, what bars them, what they bring."""

from __future__ import annotations

import re

from drift.driver import branch, installed, is_version, models, support
from facts.kernels import Source
from facts.node import NodeState
from inventories.packages import FAMILIES
from inventories.schema import DriverWanted, NodeWanted

# Ubuntu's nvidia-dkms-535-open, Debian's nvidia-open-kernel-dkms, the rpm family's.
_OPEN = re.compile(r"(^|-)open(-|$)")


def named(found: NodeState, wanted: DriverWanted) -> tuple[str, ...]:
    """Return the packages that the inventory names for a node's family; there may be none."""
    family = FAMILIES.get(found.nccl.manager or "")
    given = wanted.packages
    return (getattr(given, family) if given and family else None) or ()


def is_full(version: str | None) -> bool:
    """Whether a version names one driver, as 535.154.05 does, and no branch of several."""
    return version is not None and version.count(".") == 2


def is_version_of(package: str, version: str) -> bool:
    """Whether a package's version (535.154.05-1) is of a driver's version, or of its branch."""
    return re.match(rf"{re.escape(version)}(?![0-9])", package) is not None


def half(found: NodeState, wanted: DriverWanted) -> list[str]:
    """Return the named packages that lack beside others that are there, at the version wanted.

    A driver that came by none of them is somebody else's, and nothing lacks.
    """
    there, version = found.driver.packages or {}, installed(found.driver)
    if not there or version is None or wanted.version is None:
        return []
    if not is_version(version, wanted.version):
        return []
    return [name for name in named(found, wanted) if not there.get(name)]


def hindrance(found: NodeState, wanted: NodeWanted) -> str | None:
    """Return why the deploy does not install the driver, as what to do first; None if it does."""
    driver = wanted.driver
    if driver is None:
        return "say which one: driver: {version: ...}"
    names, family = named(found, driver), FAMILIES.get(found.nccl.manager or "")
    if family is None:
        return "no apt, dnf or yum is here: install it by hand"
    if not names:
        return (
            "install it by hand, with its dkms package, so that it can follow the kernel; or name "
            f"its packages, and the deploy does it: driver: {{packages: {{{family}: [...]}}}}"
        )
    if found.driver.devices == ():
        return "no NVIDIA GPU is on the PCI bus: look for it in the server, and in its firmware"
    if driver.version is None:
        return "say which version its packages are to have: driver: {version: ...}"
    return _remains(found) or _unfit(found, wanted, names, driver.version)


def _remains(found: NodeState) -> str | None:
    """What another driver has left, which packages would be mixed with."""
    state = found.driver
    if state.packages:  # a run that was cut off has begun to install them
        return None
    kernels = state.kernels.installed if state.kernels else ()
    left = [f"{each.module.file} ({each.module.version})" for each in kernels if each.module]
    if state.smi is not None and (state.smi.code is not None or state.smi.skipped):
        left.append("an nvidia-smi")
    if not left:
        return None
    return (
        f"another driver has left {', '.join(left)}: take it away first, the way it came "
        "(NVIDIA's installer: nvidia-uninstall)"
    )


def _unfit(
    found: NodeState, wanted: NodeWanted, names: tuple[str, ...], version: str
) -> str | None:
    """Why these packages are none for a GPU of the node."""
    is_open = any(_OPEN.search(name) for name in names)
    for gpu in models(found, wanted):
        limits = support(gpu)
        if limits is None:
            continue
        if limits.last is not None and branch(version) > limits.last:
            return f"{gpu} is driven up to branch {limits.last}: want that, or an older one"
        if branch(version) < limits.first:
            return f"{gpu} is driven from branch {limits.first} on: want that, or a newer one"
        if is_open and limits.open == "no":
            return f"{gpu} is not driven by the open module: name the packages of the proprietary"
        if not is_open and limits.open == "only":
            return f"{gpu} is driven by the open module alone: name its packages"
    return None


def with_driver(found: NodeState, version: str) -> NodeState:
    """Return a bare node as it is once the packages are there: a library, and sources for dkms.

    What the sources are called is not known before: their name is empty.
    """
    state = found.driver
    if state.dkms is None:
        return found
    sources = (*state.dkms.sources, Source(name="", version=version))
    dkms = state.dkms.model_copy(update={"sources": sources})
    driver = state.model_copy(update={"dkms": dkms, "library": version})
    return found.model_copy(update={"driver": driver})

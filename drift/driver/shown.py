"""What the table shows of each fact: its value as text, or None where it could not be read."""

from __future__ import annotations

import re
from collections.abc import Callable

from drift.boot import next_boot as booted_next
from drift.libnccl import loaded, own
from drift.quantity import limit, size
from facts.limits import Item
from facts.nccl import Environment, plain
from facts.node import NodeState


def driver(node: NodeState) -> str | None:
    if node.driver.loaded is None or node.driver.library is None:
        return None
    if node.driver.loaded.nvidia or not node.driver.library:
        return node.driver.loaded.nvidia or "none"
    return "not loaded"


def next_boot(node: NodeState) -> str | None:
    """The module of the kernel that boots next, which is named where it is another."""
    kernels = node.driver.kernels
    if kernels is None or node.driver.boot is None:
        return None
    chosen = booted_next(node.driver).kernel
    if chosen is None:
        return "unknown"
    for kernel in kernels.installed:
        if kernel.name == chosen:
            has = kernel.module.version if kernel.module else "no module"
            return has if chosen == kernels.running else f"{has} in {short(chosen)}"
    return f"{short(chosen)}, which is not installed"


def short(kernel: str | None) -> str | None:
    """A kernel's name without the architecture, which all have and a table has no room for."""
    return kernel and kernel.removesuffix(".x86_64")


# What stands before every model and tells nothing.
_MAKE = re.compile(r"^(NVIDIA |Tesla )+")


def gpus(node: NodeState) -> str | None:
    if node.driver.smi is None:
        return None
    found = [_MAKE.sub("", gpu.name) for gpu in node.driver.smi.gpus]
    return ", ".join(f"{found.count(name)} x {name}" for name in dict.fromkeys(found)) or "none"


def shm_size(node: NodeState) -> str | None:
    if node.shm.mount is None or node.shm.usage is None:
        return None
    if not node.shm.mount.layers:
        return "not mounted"
    return size(node.shm.usage.size) if node.shm.usage.size else "no limit"


def shm_fstab(node: NodeState) -> str | None:
    if node.shm.fstab is None:
        return None
    return ", ".join(line.size or "no size" for line in node.shm.fstab) or "no line"


def shm_mode(node: NodeState) -> str | None:
    mode = node.shm.mode
    return None if mode is None else f"{mode.mode} {mode.uid}:{mode.gid}"


def pair(item: Item) -> Callable[[NodeState], str | None]:
    def value(node: NodeState) -> str | None:
        if node.limits.session is None:
            return None
        pair = getattr(node.limits.session, item)
        return "/".join(limit(side, item != "nofile") for side in (pair.soft, pair.hard))

    return value


def cmake(node: NodeState) -> str | None:
    if node.toolchain.cmake is None:
        return None
    first = node.toolchain.cmake.found[:1]
    return (first[0].version or "broken") if first else "none"


def cmake_path(node: NodeState) -> str | None:
    if node.toolchain.cmake is None:
        return None
    first = node.toolchain.cmake.found[:1]
    return first[0].path if first else "none"


def nr_open(node: NodeState) -> str | None:
    return None if node.limits.nr_open is None else str(node.limits.nr_open)


def _environments(node: NodeState) -> list[Environment | None]:
    return list(node.nccl.environments.values())


def torch(node: NodeState) -> str | None:
    found = _environments(node)
    if None in found:
        return None
    told = [each.torch.version if each and each.torch else "none" for each in found]
    return ", ".join(dict.fromkeys(told))


def nccl(node: NodeState) -> str | None:
    """The version that torch loads, in the order of the environments."""
    found = _environments(node)
    if None in found:
        return None
    told = [loaded(each) for each in found if each and each.torch]
    return ", ".join(dict.fromkeys(told)) or "none"


def nccl_by(node: NodeState) -> str | None:
    found = _environments(node)
    if None in found:
        return None
    return (
        ", ".join(
            f"{each.loads.reason}: {plain(each.loads.path).removesuffix('/libnccl.so.2')}"
            for each in found
            if each and each.loads and each.loads.path
        )
        or "none"
    )


def packages(node: NodeState) -> str | None:
    if node.nccl.packages is None:
        return None
    versions = [each.version for each in own(node.nccl)]
    return ", ".join(dict.fromkeys(versions)) or "none"


def workspace(node: NodeState) -> str | None:
    told = node.workspace.trees.values()
    if None in told:
        return None
    trees = [each for each in told if each and each.digest]
    return ", ".join(f"{each.files} files, {size(each.bytes)}" for each in trees) or "none"


def logins(node: NodeState) -> str | None:
    """How many logins to the nodes, by name and by address, work of those that were tried."""
    if node.ssh.logins is None:
        return None
    worked = sum(1 for each in node.ssh.logins if each.code == 0)
    return f"{worked} of {len(node.ssh.logins)}"

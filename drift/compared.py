"""What is compared between nodes: each fact's class, its value as text, the rules that mark it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from drift import ifname, network
from drift.boot import next_boot
from drift.environments import are_read, names, pins, version
from drift.finding import Finding
from drift.libnccl import loaded, own
from drift.quantity import limit, size
from facts.limits import Item
from facts.nccl import Environment, plain
from facts.node import NodeState
from inventories.schema import NodeWanted

# What the facts about packages of Python environments begin with.
PACKAGE = "toolchain.package:"
Class = Literal["must-equal", "per-model", "per-host"]


@dataclass(frozen=True)
class Fact:
    """A fact that is shown for each node and compared between nodes.

    `marked_by` names the findings, as `rule` or `rule:subject`, that say this value is wrong;
    `value` returns the text of the value, or None where it could not be read; `is_managed` tells
    whether the inventory says what it should be, `applies` whether a node is asked at all.
    """

    name: str
    comparison: Class
    marked_by: tuple[str, ...]
    value: Callable[[NodeState], str | None]
    is_managed: Callable[[NodeWanted], bool] = lambda wanted: False
    applies: Callable[[NodeState], bool] | None = None

    def is_asked(self, node: NodeState) -> bool:
        """Whether a node has this fact: some ask about what the inventory names alone."""
        return self.applies is None or self.applies(node)

    def is_marked(self, findings: list[Finding]) -> bool:
        """Whether one of `findings` is about this fact."""
        # A package is told as "pyarrow in /opt/conda": the mark is for all environments.
        subjects = {(each.rule, each.subject.partition(" in ")[0]) for each in findings}
        names = {name for rule, about in subjects for name in (rule, f"{rule}:{about}")}
        names |= {f"{each.rule}:{each.subject}" for each in findings}
        return not names.isdisjoint(self.marked_by)


def _driver(node: NodeState) -> str | None:
    if node.driver.loaded is None or node.driver.library is None:
        return None
    if node.driver.loaded.nvidia or not node.driver.library:
        return node.driver.loaded.nvidia or "none"
    return "not loaded"


def _next_boot(node: NodeState) -> str | None:
    """The module of the kernel that boots next, which is named where it is another."""
    kernels = node.driver.kernels
    if kernels is None or node.driver.boot is None:
        return None
    chosen = next_boot(node.driver).kernel
    if chosen is None:
        return "unknown"
    for kernel in kernels.installed:
        if kernel.name == chosen:
            has = kernel.module.version if kernel.module else "no module"
            return has if chosen == kernels.running else f"{has} in {_short(chosen)}"
    return f"{_short(chosen)}, which is not installed"


def _short(kernel: str | None) -> str | None:
    """A kernel's name without the architecture, which all have and a table has no room for."""
    return kernel and kernel.removesuffix(".x86_64")


# What stands before every model and tells nothing.
_MAKE = re.compile(r"^(NVIDIA |Tesla )+")


def _gpus(node: NodeState) -> str | None:
    if node.driver.smi is None:
        return None
    found = [_MAKE.sub("", gpu.name) for gpu in node.driver.smi.gpus]
    return ", ".join(f"{found.count(name)} x {name}" for name in dict.fromkeys(found)) or "none"


def _shm_size(node: NodeState) -> str | None:
    if node.shm.mount is None or node.shm.usage is None:
        return None
    if not node.shm.mount.layers:
        return "not mounted"
    return size(node.shm.usage.size) if node.shm.usage.size else "no limit"


def _shm_fstab(node: NodeState) -> str | None:
    if node.shm.fstab is None:
        return None
    return ", ".join(line.size or "no size" for line in node.shm.fstab) or "no line"


def _shm_mode(node: NodeState) -> str | None:
    mode = node.shm.mode
    return None if mode is None else f"{mode.mode} {mode.uid}:{mode.gid}"


def _pair(item: Item) -> Callable[[NodeState], str | None]:
    def value(node: NodeState) -> str | None:
        if node.limits.session is None:
            return None
        pair = getattr(node.limits.session, item)
        return "/".join(limit(side, item != "nofile") for side in (pair.soft, pair.hard))

    return value


def _cmake(node: NodeState) -> str | None:
    if node.toolchain.cmake is None:
        return None
    first = node.toolchain.cmake.found[:1]
    return (first[0].version or "broken") if first else "none"


def _cmake_path(node: NodeState) -> str | None:
    if node.toolchain.cmake is None:
        return None
    first = node.toolchain.cmake.found[:1]
    return first[0].path if first else "none"


def _nr_open(node: NodeState) -> str | None:
    return None if node.limits.nr_open is None else str(node.limits.nr_open)


def _environments(node: NodeState) -> list[Environment | None]:
    return list(node.nccl.environments.values())


def _torch(node: NodeState) -> str | None:
    found = _environments(node)
    if None in found:
        return None
    told = [each.torch.version if each and each.torch else "none" for each in found]
    return ", ".join(dict.fromkeys(told))


def _nccl(node: NodeState) -> str | None:
    """The version that torch loads, in the order of the environments."""
    found = _environments(node)
    if None in found:
        return None
    told = [loaded(each) for each in found if each and each.torch]
    return ", ".join(dict.fromkeys(told)) or "none"


def _nccl_by(node: NodeState) -> str | None:
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


def _packages(node: NodeState) -> str | None:
    if node.nccl.packages is None:
        return None
    versions = [each.version for each in own(node.nccl)]
    return ", ".join(dict.fromkeys(versions)) or "none"


def _workspace(node: NodeState) -> str | None:
    told = node.workspace.trees.values()
    if None in told:
        return None
    trees = [each for each in told if each and each.digest]
    return ", ".join(f"{each.files} files, {size(each.bytes)}" for each in trees) or "none"


def _has_environments(node: NodeState) -> bool:
    return bool(node.nccl.environments)


def _logins(node: NodeState) -> str | None:
    """How many logins to the nodes, by name and by address, work of those that were tried."""
    if node.ssh.logins is None:
        return None
    worked = sum(1 for each in node.ssh.logins if each.code == 0)
    return f"{worked} of {len(node.ssh.logins)}"


def _mesh_is_managed(wanted: NodeWanted) -> bool:
    return wanted.ssh is not None and wanted.ssh.mesh is True


def _limit_fact(item: Item, *rules: str) -> Fact:
    def is_managed(wanted: NodeWanted) -> bool:
        return wanted.limits is not None and getattr(wanted.limits, item) is not None

    marks = (*rules, f"limits.not-effective:{item}")
    return Fact(f"limits.{item}", "must-equal", marks, _pair(item), is_managed)


def _shm_is_managed(wanted: NodeWanted) -> bool:
    return wanted.shm is not None


def _cmake_is_managed(wanted: NodeWanted) -> bool:
    return wanted.toolchain is not None and wanted.toolchain.cmake is not None


_BOOT = ("driver.next-boot", "driver.module-not-built")
_GPUS = ("driver.gpu-differs", "driver.smi-fails", "driver.not-loaded", "driver.library-mismatch")
FACTS: tuple[Fact, ...] = (
    Fact(
        "driver.version",
        "must-equal",
        (
            "driver.not-installed",
            "driver.version-differs",
            "driver.not-loaded",
            "driver.library-mismatch",
        ),
        _driver,
    ),
    Fact(
        "driver.next_boot", "per-host", ("driver.next-boot", "driver.module-not-built"), _next_boot
    ),
    Fact("driver.gpus", "per-host", _GPUS, _gpus),
    Fact("shm.size", "per-model", ("shm.too-small", "shm.container"), _shm_size, _shm_is_managed),
    Fact("shm.fstab", "per-model", ("shm.not-persistent",), _shm_fstab, _shm_is_managed),
    Fact("shm.mode", "must-equal", ("shm.permissions",), _shm_mode, _shm_is_managed),
    _limit_fact("nofile", "limits.nofile", "limits.above-nr-open:nofile in the inventory"),
    _limit_fact("memlock", "limits.memlock"),
    _limit_fact("stack", "limits.stack-unlimited"),
    Fact("limits.nr_open", "per-host", ("limits.above-nr-open",), _nr_open),
    Fact(
        "toolchain.cmake",
        "must-equal",
        ("toolchain.cmake-old", "toolchain.cmake-shadowed"),
        _cmake,
        _cmake_is_managed,
    ),
    Fact("toolchain.cmake_path", "per-host", (), _cmake_path),
    Fact("nccl.torch", "must-equal", ("nccl.torch-differs",), _torch, applies=_has_environments),
    Fact(
        "nccl.loaded",
        "must-equal",
        ("nccl.loaded-mismatch", "nccl.wheel-damaged", "nccl.duplicate-wheels"),
        _nccl,
        applies=_has_environments,
    ),
    Fact("nccl.loaded_by", "per-host", ("nccl.shadowed",), _nccl_by, applies=_has_environments),
    Fact(
        "nccl.package",
        "must-equal",
        (
            "nccl.package-mismatch",
            "nccl.duplicate-packages",
            "nccl.package-missing",
            "nccl.package-damaged",
        ),
        _packages,
        applies=_has_environments,
    ),
    Fact(
        "ssh.logins",
        "per-host",
        ("ssh.no-login",),
        _logins,
        _mesh_is_managed,
        applies=lambda node: not node.ssh.left_out and node.ssh.logins != (),
    ),
    Fact("network.addresses", "per-host", ("network.address-missing",), network.shown),
    Fact("network.ifname", "per-host", ifname.RULES, ifname.effective),
    Fact(
        "workspace.files",
        "per-host",
        ("workspace.missing", "workspace.differs"),
        _workspace,
        applies=lambda node: bool(node.workspace.trees),
    ),
    Fact("toolchain.os", "per-host", (), lambda node: node.toolchain.os),
    Fact("toolchain.kernel", "per-host", (), lambda node: _short(node.toolchain.kernel)),
)


def package_facts(nodes: Iterable[NodeState]) -> tuple[Fact, ...]:
    """Return a fact for each package of the environments of these nodes."""
    return tuple(package_fact(name) for name in names(nodes))


def package_fact(name: str) -> Fact:
    def is_managed(wanted: NodeWanted) -> bool:
        return name in pins(wanted)

    def value(node: NodeState) -> str:
        return version(node, name)

    marks = (f"toolchain.package-differs:{name}",)
    return Fact(f"{PACKAGE}{name}", "must-equal", marks, value, is_managed, are_read)

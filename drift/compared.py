"""What is compared between nodes: each fact's class, its value as text, the rules that mark it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from drift import ifname, network, values
from drift.environments import are_read, names, pins, version
from drift.finding import Finding
from facts.limits import Item
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


def _has_environments(node: NodeState) -> bool:
    return bool(node.nccl.environments)


def _mesh_is_managed(wanted: NodeWanted) -> bool:
    return wanted.ssh is not None and wanted.ssh.mesh is True


def _limit_fact(item: Item, *rules: str) -> Fact:
    def is_managed(wanted: NodeWanted) -> bool:
        return wanted.limits is not None and getattr(wanted.limits, item) is not None

    marks = (*rules, f"limits.not-effective:{item}")
    return Fact(f"limits.{item}", "must-equal", marks, values.pair(item), is_managed)


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
            "driver.package-missing",
            "driver.version-differs",
            "driver.not-loaded",
            "driver.library-mismatch",
        ),
        values.driver,
    ),
    Fact(
        "driver.next_boot",
        "per-host",
        _BOOT,
        values.next_boot,
    ),
    Fact("driver.gpus", "per-host", _GPUS, values.gpus),
    Fact(
        "shm.size",
        "per-model",
        ("shm.too-small", "shm.container"),
        values.shm_size,
        _shm_is_managed,
    ),
    Fact("shm.fstab", "per-model", ("shm.not-persistent",), values.shm_fstab, _shm_is_managed),
    Fact("shm.mode", "must-equal", ("shm.permissions",), values.shm_mode, _shm_is_managed),
    _limit_fact("nofile", "limits.nofile", "limits.above-nr-open:nofile in the inventory"),
    _limit_fact("memlock", "limits.memlock"),
    _limit_fact("stack", "limits.stack-unlimited"),
    Fact("limits.nr_open", "per-host", ("limits.above-nr-open",), values.nr_open),
    Fact(
        "toolchain.cmake",
        "must-equal",
        ("toolchain.cmake-old", "toolchain.cmake-shadowed"),
        values.cmake,
        _cmake_is_managed,
    ),
    Fact("toolchain.cmake_path", "per-host", (), values.cmake_path),
    Fact(
        "nccl.torch", "must-equal", ("nccl.torch-differs",), values.torch, applies=_has_environments
    ),
    Fact(
        "nccl.loaded",
        "must-equal",
        ("nccl.loaded-mismatch", "nccl.wheel-damaged", "nccl.duplicate-wheels"),
        values.nccl,
        applies=_has_environments,
    ),
    Fact(
        "nccl.loaded_by", "per-host", ("nccl.shadowed",), values.nccl_by, applies=_has_environments
    ),
    Fact(
        "nccl.package",
        "must-equal",
        (
            "nccl.package-mismatch",
            "nccl.duplicate-packages",
            "nccl.package-missing",
            "nccl.package-damaged",
        ),
        values.packages,
        applies=_has_environments,
    ),
    Fact(
        "ssh.logins",
        "per-host",
        ("ssh.no-login",),
        values.logins,
        _mesh_is_managed,
        applies=lambda node: not node.ssh.left_out and node.ssh.logins != (),
    ),
    Fact("network.addresses", "per-host", ("network.address-missing",), network.shown),
    Fact("network.ifname", "per-host", ifname.RULES, ifname.effective),
    Fact(
        "workspace.files",
        "per-host",
        ("workspace.missing", "workspace.differs"),
        values.workspace,
        applies=lambda node: bool(node.workspace.trees),
    ),
    Fact("toolchain.os", "per-host", (), lambda node: node.toolchain.os),
    Fact("toolchain.kernel", "per-host", (), lambda node: values.short(node.toolchain.kernel)),
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

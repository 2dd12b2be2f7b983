"""What the report shows of shared memory, and compares between nodes of one GPU model."""

from __future__ import annotations

from gpu_node.drift import units
from gpu_node.drift.engine.fact import Fact
from gpu_node.drift.shm import rules
from gpu_node.drift.shm.rules_between import differs
from gpu_node.facts.node import NodeState
from gpu_node.inventories.schema import NodeWanted


def size(node: NodeState) -> str | None:
    if node.shm.mount is None or node.shm.usage is None:
        return None
    if not node.shm.mount.layers:
        return "not mounted"
    return units.size(node.shm.usage.size) if node.shm.usage.size else "no limit"


def fstab(node: NodeState) -> str | None:
    if node.shm.fstab is None:
        return None
    return ", ".join(line.size or "no size" for line in node.shm.fstab) or "no line"


def mode(node: NodeState) -> str | None:
    permissions = node.shm.mode
    return (
        None if permissions is None else f"{permissions.mode} {permissions.uid}:{permissions.gid}"
    )


def _is_managed(wanted: NodeWanted) -> bool:
    return wanted.shm is not None


FACTS = (
    Fact("shm.size", "per-model", (rules.too_small, rules.container), size, differs, _is_managed),
    Fact("shm.fstab", "per-model", (rules.not_persistent,), fstab, differs, _is_managed),
    Fact("shm.mode", "must-equal", (rules.permissions,), mode, differs, _is_managed),
)

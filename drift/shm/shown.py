"""What the report shows of shared memory, and compares between nodes of one GPU model."""

from gpu_node.drift import units
from gpu_node.drift.engine.fact import shows
from gpu_node.facts.node import NodeState
from gpu_node.facts.shm.state import FstabLine, Mode


@shows("shm.size")
def size(node: NodeState) -> str | None:
    if node.shm.mount is None or node.shm.usage is None:
        return None
    if not node.shm.mount.layers:
        return "not mounted"
    return units.size(node.shm.usage.size) if node.shm.usage.size else "no limit"


@shows("shm.fstab")
def fstab(lines: tuple[FstabLine, ...]) -> str:
    return ", ".join(line.size or "no size" for line in lines) or "no line"


@shows("shm.mode")
def mode(permissions: Mode) -> str:
    return f"{permissions.mode} {permissions.uid}:{permissions.gid}"

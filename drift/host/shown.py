"""What the report shows of the host: its memory and its local time."""

from gpu_node.drift import units
from gpu_node.drift.engine.fact import shows
from gpu_node.drift.host.machine import memory_of
from gpu_node.facts.node import NodeState


@shows("host.memory")
def memory(node: NodeState) -> str | None:
    size = memory_of(node)
    return None if size is None else units.size(size)


@shows("host.timezone")
def timezone(offset: str) -> str:
    return f"UTC{offset[:3]}:{offset[3:]}"

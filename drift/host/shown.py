"""What the report shows of the host: its memory and its local time."""

from __future__ import annotations

from gpu_node.drift import units
from gpu_node.drift.engine.fact import Fact
from gpu_node.drift.host.machine import memory_of
from gpu_node.drift.host.rules import memory_pressure
from gpu_node.drift.host.rules_between import timezone_differs
from gpu_node.drift.host.rules_job import memory_for_job
from gpu_node.facts.node import NodeState


def memory(node: NodeState) -> str | None:
    size = memory_of(node)
    return None if size is None else units.size(size)


def timezone(node: NodeState) -> str | None:
    if node.host.name is None:
        return None
    offset = node.host.name.offset
    return f"UTC{offset[:3]}:{offset[3:]}"


FACTS = (
    Fact("host.memory", "per-host", (memory_pressure, memory_for_job), memory),
    Fact("host.timezone", "must-equal", (), timezone, timezone_differs),
)

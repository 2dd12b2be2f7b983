"""Whether what a node reports of its kernel is about itself, or about the host of a container."""

from __future__ import annotations

from gpu_node.facts.node import NodeState

# Seconds after which an event is no longer what a person looks for: a week. Proposed, no source.
RECENT = 7 * 86400


def is_machine(found: NodeState) -> bool:
    """Whether the node is a machine, physical or virtual; False where that is unknown.

    A container has markers of its manager, or a pid namespace that is not the first of the kernel.
    """
    container, memory = found.shm.container, found.host.memory
    if container is None or memory is None:
        return False
    return container.kind == "none" and memory.is_machine is True


def is_container(found: NodeState) -> bool:
    """Whether the node is surely a container."""
    container, memory = found.shm.container, found.host.memory
    has_manager = container is not None and container.kind != "none"
    return has_manager or (memory is not None and memory.is_machine is False)


def memory_of(found: NodeState) -> int | None:
    """Return the bytes of memory that a job can use: the machine's, or a container's limit."""
    memory = found.host.memory
    if memory is None:
        return None
    if is_container(found) and memory.limit is not None:
        return min(memory.total, memory.limit)
    return memory.total


def ago(seconds: float) -> str:
    """Return an age in words: 5 min, 3 h, 12 days."""
    minutes = seconds / 60
    if minutes < 120:
        return f"{minutes:.0f} min ago"
    return f"{minutes / 60:.0f} h ago" if minutes < 48 * 60 else f"{minutes / 1440:.0f} days ago"

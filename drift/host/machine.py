"""What a node is: a machine or a container, with how much memory, and whether jobs run on it."""

from gpu_node.facts.node import NodeState
from gpu_node.inventories.wanted import NodeWanted

# Seconds after which an event is no longer what a person looks for: a week. Proposed, no source.
RECENT = 7 * 86400


def is_machine(state: NodeState) -> bool:
    """Whether the node is a machine, physical or virtual; False where that is unknown.

    A container has markers of its manager, or a pid namespace that is not the first of the kernel.
    """
    container, memory = state.shm.container, state.host.memory
    if container is None or memory is None:
        return False
    return container.kind == "none" and memory.is_machine is True


def is_container(state: NodeState) -> bool:
    """Whether the node is surely a container."""
    container, memory = state.shm.container, state.host.memory
    has_manager = container is not None and container.kind != "none"
    return has_manager or (memory is not None and memory.is_machine is False)


def memory_of(state: NodeState) -> int | None:
    """Return the bytes of memory that a job can use: the machine's, or a container's limit."""
    memory = state.host.memory
    if memory is None:
        return None
    if is_container(state) and memory.limit is not None:
        return min(memory.total, memory.limit)
    return memory.total


def trains(state: NodeState, wanted: NodeWanted) -> bool:
    """Whether jobs run on a node: it has a GPU, or shall have one, or it has a PyTorch.

    Not every runtime shows a container the PCI devices of its GPUs.
    """
    smi = state.driver.smi
    has_gpus = bool(state.driver.own_devices) or (smi is not None and bool(smi.gpus))
    has_torch = any(
        environment and environment.torch for environment in state.nccl.environments.values()
    )
    return not wanted.is_cpu_node and (has_gpus or has_torch or wanted.gpu is not None)


def ago(seconds: float) -> str:
    """Return an age in words: 5 min, 3 h, 12 days."""
    minutes = seconds / 60
    if minutes < 120:
        return f"{minutes:.0f} min ago"
    return f"{minutes / 60:.0f} h ago" if minutes < 48 * 60 else f"{minutes / 1440:.0f} days ago"

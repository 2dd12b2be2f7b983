"""Shared memory rule about the machine's memory: /dev/shm cannot hold more than that."""

from collections.abc import Iterator

from gpu_node.drift.engine.rule import At, Fault, check
from gpu_node.drift.engine.subject import Path
from gpu_node.drift.host.machine import is_container, memory_of
from gpu_node.drift.units import size
from gpu_node.facts.host.state import Memory
from gpu_node.facts.node import NodeState
from gpu_node.inventories.fields.sizes import format_size
from gpu_node.inventories.wanted import NodeWanted


@check("shm.above-memory")
def above_memory(at: At) -> Iterator[Fault]:
    memory, usable = at.node.host.memory, memory_of(at.node)
    if memory is None or usable is None:
        return
    asked = at.wanted.shm.size if at.wanted.shm else 0
    if asked > usable:
        impossible = is_impossible(at.node, at.wanted)
        yield Fault(
            subject="shm.size" if impossible else "shm.size beyond memory",
            found=f"{format_size(asked)} wanted, {_where(at.node, usable, memory)}",
            wanted=f"at most {size(usable)}",
            also="the deploy does not apply this size" if impossible else "",
            fix=f"lower shm.size, to {format_size(half(usable))} for example",
            severity=None if impossible else "warning",
            # It is not applied: what asks for it ends with the size.
            explains="all" if impossible else "none",
        )
    usage = at.node.shm.usage
    is_tmpfs = at.node.shm.mount is not None and at.node.shm.mount.fstype == "tmpfs"
    # A container may have the /dev/shm of its host (--ipc=host): its own limit is not compared.
    if is_tmpfs and usage is not None and usage.size > memory.total + memory.swap_total:
        yield Fault(
            subject=Path("/dev/shm"),
            found=f"{size(usage.size)}, {_where(at.node, memory.total, memory)}",
            wanted=f"at most {size(memory.total)}",
            fix="mount -o remount,size=50% /dev/shm, and the same in its line in /etc/fstab",
            severity="warning",
            explains="none",
        )


def is_impossible(state: NodeState, wanted: NodeWanted) -> bool:
    """Whether the size that is wanted is more than memory and swap together."""
    memory, usable = state.host.memory, memory_of(state)
    if memory is None or usable is None or wanted.shm is None:
        return False
    return wanted.shm.size > usable + memory.swap_total


def _where(state: NodeState, usable: int, memory: Memory) -> str:
    """Return in words what a node has; without a limit a container has what its host has."""
    swap = f" and {size(memory.swap_total)} of swap" if memory.swap_total else ""
    has = f"with {size(usable)} of memory{swap}"
    if not is_container(state):
        return f"on a node {has}"
    return f"in a container {'on a machine ' if usable == memory.total else ''}{has}"


def half(memory: int) -> int:
    """Return half of the memory in whole gigabytes, or megabytes where it is less than two."""
    unit = 1 << 30 if memory >= 2 << 30 else 1 << 20
    return memory // 2 // unit * unit

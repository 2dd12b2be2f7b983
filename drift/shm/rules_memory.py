"""Shared memory rule about the machine's memory: /dev/shm cannot hold more than that."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_node.drift.engine.rule import Fault, on_node, rule
from gpu_node.drift.engine.subject import Path, Thing
from gpu_node.drift.host.machine import is_machine
from gpu_node.drift.units import size
from gpu_node.facts.node import NodeState
from gpu_node.inventories.schema import NodeWanted, format_size

_SIZE = Thing("shm.size")


@rule(
    "shm.above-memory",
    ("error", "warning"),
    whole=True,
    always=True,
    why="A tmpfs is memory: once it is full of more than there is, the kernel kills processes, and "
    "killing them frees nothing of it.",
    manual="Lower shm.size in the inventory, half of the memory is usual; or remount /dev/shm "
    "smaller: mount -o remount,size=50% /dev/shm.",
    alone="Keep less than the memory in /dev/shm: df -h /dev/shm.",
)
def above_memory(found: NodeState, wanted: NodeWanted) -> Iterator[Fault]:
    """/dev/shm is, or shall be, larger than the memory of the machine."""
    limits = _memory(found)
    if limits is None:
        return
    memory, swap = limits
    asked = wanted.shm.size if wanted.shm else 0
    has = f"{size(memory)} of memory" + (f" and {size(swap)} of swap" if swap else "")
    if asked > memory:
        impossible = is_impossible(found, wanted)
        yield Fault(
            subject=_SIZE if impossible else Thing("shm.size beyond memory"),
            found=f"{format_size(asked)} wanted, on a node with {has}",
            wanted=f"at most {size(memory)}",
            cause="a tmpfs is memory and swap: once it is full the kernel kills processes, which "
            "frees nothing of it" + ("; the deploy does not apply this size" if impossible else ""),
            fix=f"lower shm.size, to {format_size(_half(memory))} for example",
            fixable=False,
            severity=None if impossible else "warning",
        )
    usage = found.shm.usage
    is_tmpfs = found.shm.mount is not None and found.shm.mount.fstype == "tmpfs"
    if is_tmpfs and usage is not None and usage.size > memory + swap:
        yield Fault(
            subject=Path("/dev/shm"),
            found=f"{size(usage.size)}, on a node with {has}",
            wanted=f"at most {size(memory)}",
            cause="a tmpfs is memory and swap: once it is full the kernel kills processes, which "
            "frees nothing of it",
            fix="mount -o remount,size=50% /dev/shm, and the same in its line in /etc/fstab",
            fixable=False,
            severity="warning",
        )


# What an impossible size asks for is not applied: these findings end with the size.
IMPOSSIBLE = on_node(above_memory, when=lambda about: about == _SIZE)


def is_impossible(found: NodeState, wanted: NodeWanted) -> bool:
    """Whether the size that is wanted is more than memory and swap together."""
    limits = _memory(found)
    return limits is not None and wanted.shm is not None and wanted.shm.size > sum(limits)


def _memory(found: NodeState) -> tuple[int, int] | None:
    """Return the bytes of memory and swap; a container shows those of its host: None."""
    memory = found.host.memory
    return (memory.total, memory.swap_total) if memory is not None and is_machine(found) else None


def _half(memory: int) -> int:
    """Return half of the memory in whole gigabytes, or megabytes where it is less than two."""
    unit = 1 << 30 if memory >= 2 << 30 else 1 << 20
    return memory // 2 // unit * unit

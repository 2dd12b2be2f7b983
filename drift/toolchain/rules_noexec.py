"""Toolchain rule about mounts: a job can load the code that it compiles."""

from __future__ import annotations

from collections.abc import Iterator
from shlex import quote

from gpu_node.drift.engine.rule import Fault, rule
from gpu_node.drift.engine.subject import Path
from gpu_node.drift.host.machine import trains
from gpu_node.facts.node import NodeState
from gpu_node.inventories.schema import NodeWanted

_LOADS = {
    "TORCHINDUCTOR_CACHE_DIR": "torch.compile loads its kernels",
    "TRITON_CACHE_DIR": "Triton loads its launchers",
    "TORCH_EXTENSIONS_DIR": "torch and DeepSpeed load the operators that they have compiled",
}


@rule(
    "toolchain.noexec",
    "warning",
    whole=True,
    always=True,
    why="code that a job has compiled cannot be loaded: 'failed to map segment from shared object'",
    manual="remount it with exec, and remove noexec where the mount is set up; or name another "
    "folder: TORCHINDUCTOR_CACHE_DIR, TRITON_CACHE_DIR, TORCH_EXTENSIONS_DIR",
    alone="Set TORCHINDUCTOR_CACHE_DIR, TRITON_CACHE_DIR or TORCH_EXTENSIONS_DIR to a folder on "
    "another file system.",
)
def noexec(state: NodeState, wanted: NodeWanted) -> Iterator[Fault]:
    """A folder from which a job loads what it has compiled is on a mount with noexec."""
    build = state.toolchain.build
    for each in (build.noexec if build and trains(state, wanted) else None) or ():
        yield Fault(
            subject=Path(each.folder),
            found=f"{each.mount} is mounted with noexec",
            wanted="a mount without noexec",
            cause=f"{_LOADS[each.variable]} from there: it ends with 'failed to map segment from "
            "shared object'",
            fix=f"mount -o remount,exec {quote(each.mount)}, and remove noexec from its line in "
            f"/etc/fstab, or from its unit; or set {each.variable} to a folder on another file "
            "system",
        )

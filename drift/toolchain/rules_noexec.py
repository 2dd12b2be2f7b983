"""Toolchain rule about mounts: a job can load the code that it compiles."""

from __future__ import annotations

from collections.abc import Iterator
from shlex import quote

from gpu_node.drift.engine.rule import At, Fault, check
from gpu_node.drift.engine.subject import Path
from gpu_node.drift.host.machine import trains

_LOADS = {
    "TORCHINDUCTOR_CACHE_DIR": "torch.compile loads its kernels",
    "TRITON_CACHE_DIR": "Triton loads its launchers",
    "TORCH_EXTENSIONS_DIR": "torch and DeepSpeed load the operators that they have compiled",
}


@check("toolchain.noexec")
def noexec(at: At) -> Iterator[Fault]:
    build = at.node.toolchain.build
    for each in (build.noexec if build and trains(at.node, at.wanted) else None) or ():
        yield Fault(
            subject=Path(each.folder),
            found=f"{each.mount} is mounted with noexec",
            wanted="a mount without noexec",
            also=f"{_LOADS[each.variable]} from there",
            fix=f"mount -o remount,exec {quote(each.mount)}, and remove noexec from its line in "
            f"/etc/fstab, or from its unit; or set {each.variable} to a folder on another file "
            "system",
        )

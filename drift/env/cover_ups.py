"""Variables that hide a fault of the node, and the rules that find this fault."""

import re
from collections.abc import Mapping
from typing import NamedTuple

# The threads of each process; 1 holds DeepSpeed's CPU Adam to one core.
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
# NCCL reads a number as strtoll(3) does, base 0; 0, and any text, leave the switch off.
_ON = re.compile(r"\s*[+-]?(0[xX][0-9a-fA-F]*[1-9a-fA-F]|0*[1-9])")


class Hides(NamedTuple):
    """What a variable hides: the rules that find it, by their ids, and what the variable does.

    `area` is the area whose facts those rules need; `unchecked` is what else it may hide, and no
    rule finds.
    """

    rules: tuple[str, ...]
    area: str
    does: str
    unchecked: str = ""


HIDES: Mapping[str, Hides] = {
    "NCCL_SHM_DISABLE": Hides(
        (
            *("shm.too-small", "shm.container", "shm.permissions", "shm.stale-segments"),
            "shm.not-persistent",
        ),
        "shm",
        "the GPUs of this node exchange data over the network instead of /dev/shm, which is slow",
    ),
    "DS_SKIP_CUDA_CHECK": Hides(
        ("toolchain.cuda-mismatch",),
        "toolchain",
        "DeepSpeed compiles its operators without comparing nvcc's CUDA with torch's",
    ),
    "NCCL_P2P_DISABLE": Hides(
        ("fabric.nvlink-down",),
        "fabric",
        "the GPUs of this node use neither NVLink nor PCIe peer-to-peer: slow",
        "peer-to-peer over PCIe",
    ),
    "NCCL_IB_DISABLE": Hides(
        ("limits.memlock",),
        "limits",
        "NCCL uses TCP sockets even where InfiniBand works",
        "InfiniBand itself",
    ),
}


def is_cover_up(name: str, value: str | None) -> bool:
    """Whether a setting switches off what a fault would otherwise stop."""
    if name in THREADS or name == "DS_SKIP_CUDA_CHECK":
        return (value or "").strip() == "1"  # DeepSpeed compares with "1" (op_builder/builder.py)
    return name in HIDES and _ON.match(value or "") is not None

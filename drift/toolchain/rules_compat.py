"""Toolchain rule about the libcuda that programs load: the driver's, or another one."""

import posixpath
import re
from collections.abc import Iterator

from gpu_node.drift.engine.finding import Severity
from gpu_node.drift.engine.rule import At, Fault, check
from gpu_node.drift.engine.subject import Path
from gpu_node.facts.node import NodeState
from gpu_node.inventories.versions import numbers

# GPUs for which forward compatibility is not supported.
_CONSUMER = re.compile(r"GeForce|TITAN|\bRTX \d{4}\b|\bGTX\b")


@check("toolchain.compat-library")
def compat_library(at: At) -> Iterator[Fault]:
    library, loaded = at.node.driver.cuda, at.node.driver.loaded
    if library is None or loaded is None or not library.version or not loaded.nvidia:
        return
    # Where the driver's other libraries have that version, too, it is driver.library-mismatch.
    if library.version in (loaded.nvidia, at.node.driver.library):
        return
    severity, cause = _combination(at.node, library.version, loaded.nvidia)
    yield Fault(
        subject=Path(library.path),
        found=library.version,
        wanted=f"{loaded.nvidia}, as the loaded module",
        cause=cause,
        fix=_compat_fix(at.node, library.path, severity),
        severity=severity,
    )


def _combination(state: NodeState, library: str, module: str) -> tuple[Severity, str]:
    """Return how bad a libcuda beside a module is.

    NVIDIA's CUDA compatibility guide: a newer libcuda works on an older module for data-centre
    GPUs only, an older one never.
    """
    if numbers(library) < numbers(module):
        return "error", (
            "CUDA programs end with 'Error 803: system has unsupported display driver / cuda "
            "driver combination': this libcuda is older than the driver"
        )
    gpus = [gpu.name for gpu in state.driver.smi.gpus] if state.driver.smi else []
    gpus = gpus or list(state.nccl.gpus or ())
    if any(_CONSUMER.search(gpu) for gpu in gpus):
        return "error", (
            "CUDA programs end with 'Error 804: forward compatibility was attempted on non "
            f"supported HW': only data-centre GPUs can, and this is {gpus[0]}"
        )
    return "info", (
        "this is NVIDIA's forward compatibility, which works on data-centre GPUs; NCCL 2.24 and "
        "later may misread the driver under it: set NCCL_CUMEM_HOST_ENABLE=0"
    )


def _compat_fix(state: NodeState, library: str, severity: Severity) -> str:
    folder = posixpath.dirname(library)
    if severity == "info":
        return f"nothing to do where programs need that CUDA; without {folder} the driver's is used"
    by_shell = state.nccl.loader is not None and any(
        each and (each.rstrip("/") == folder or each.rstrip("/").endswith("/compat"))
        for each in state.nccl.loader.library_path.split(":")
    )
    if not by_shell:
        return f"remove {folder} from /etc/ld.so.conf.d, then run ldconfig"
    lines = [
        setting for setting in state.nccl.settings or () if "compat" in setting or folder in setting
    ]
    return f"remove {folder} from LD_LIBRARY_PATH{f' ({lines[0]})' if lines else ''}"

"""Environment variables of NCCL and PyTorch: what is wrong with a name in use, or a value."""

from __future__ import annotations

import re

from gpu_node.inventories.nccl_variables import Variable, Version, as_text, table

# Values that write pages a second into the log; the names themselves may stay.
_LOUD = {
    "NCCL_DEBUG": ("INFO", "TRACE"),
    "LOGLEVEL": ("DEBUG",),
    "TORCH_CPP_LOG_LEVEL": ("INFO",),
    "TORCH_DISTRIBUTED_DEBUG": ("DETAIL", "INFO"),
    "TORCH_SHOW_CPP_STACKTRACES": ("1",),
    "CUDA_LAUNCH_BLOCKING": ("1",),
}
_LEVELS = ("VERSION", "WARN", "INFO", "TRACE", "ABORT")
# How far apart two GPUs may be, as NCCL's src/graph/paths.cc compares it, or a number of old.
_DISTANCES = ("NCCL_P2P_LEVEL", "NCCL_NET_GDR_LEVEL")
_PATHS = ("LOC", "NVL", "NVB", "C2C", "PIX", "PXB", "P2C", "PXN", "PHB", "SYS")
# Names that are read as a number (by strtoll, in NCCL's NCCL_PARAM), and that no pattern matches.
_COUNTS = {
    *("NCCL_IB_TIMEOUT", "NCCL_IB_RETRY_CNT", "NCCL_IB_TC", "NCCL_IB_SL", "NCCL_IB_GID_INDEX"),
    *("NCCL_IB_QPS_PER_CONNECTION", "NCCL_BUFFSIZE", "NCCL_NTHREADS", "NCCL_CROSS_NIC"),
    *("NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS", "NCCL_MIN_CTAS", "NCCL_MAX_CTAS"),
    *("NCCL_SOCKET_NTHREADS", "NCCL_NSOCKS_PERTHREAD"),
}
# What strtoll(3) takes for a number, base 0: what follows it is passed over without a word.
_NUMBER = re.compile(r"\s*[+-]?(0[xX][0-9a-fA-F]|[0-9])")
_SWITCH = re.compile(r"NCCL_\w+_(DISABLE|ENABLE)")
_WORDS = ("true", "false", "yes", "no", "on", "off", "enable", "disable", "enabled", "disabled")
# Since when NCCL's guide says to leave NCCL_IB_GID_INDEX unset.
_GID_BY_ITSELF = (2, 21)


def outdated(name: str, nccl: Version | None, torch: Version | None) -> str:
    """Say why a name is not read, or by another name, by what is in use; empty if it is."""
    row = table().get(name)
    if row is None:
        return ""
    if row.kind == "torch-old-name":
        return f"PyTorch's old name: since torch 2.2 it is {row.use_instead}"
    if row.kind == "torch-removed":
        return "" if torch is not None and torch < (2, 8) else "no longer read by PyTorch"
    if row.kind == "torch":
        renamed = row.use_instead and torch is not None and torch >= (2, 9)
        return f"renamed in torch 2.9: {row.use_instead}" if renamed else ""
    return _outside(row, nccl)


def _outside(row: Variable, nccl: Version | None) -> str:
    gone = row.kind == "documented-but-gone"
    if gone and row.until is None:
        return "documented, but no NCCL in use reads it"
    if nccl is None:
        return f"no longer read since NCCL {as_text(row.until)}" if gone else ""
    if row.until is not None and nccl > row.until:
        instead = f", use {row.use_instead}" if row.use_instead else ""
        return f"last read by NCCL {as_text(row.until)}, and {as_text(nccl)} is in use{instead}"
    if row.name == "NCCL_IB_GID_INDEX" and nccl >= _GID_BY_ITSELF:
        return f"NCCL {as_text(nccl)} finds the index by itself, and a fixed one may be wrong"
    if row.since is not None and nccl < row.since:
        return f"not known before NCCL {as_text(row.since)}, and {as_text(nccl)} is in use"
    return ""


def is_debug(name: str, value: str) -> bool:
    """Whether a setting is for the search of a fault, and slow or loud if it stays."""
    if name in _LOUD:
        return value.strip().upper() in _LOUD[name]
    row = table().get(name)
    return row is not None and row.kind == "debug"


def misread(name: str, value: str) -> str:
    """Say how a value is read that is none, from the verb on; empty where it is one."""
    if not name.startswith("NCCL_"):
        return ""
    if value.endswith("\r"):
        return "has a CR at its end, which belongs to the value"
    if name == "NCCL_DEBUG" and value.upper() not in _LEVELS:
        return (
            "is not a level: NCCL then prints nothing, not even warnings; levels: "
            f"{', '.join(_LEVELS)}"
        )
    if name in _DISTANCES and value and value not in _PATHS and not value[0].isdigit():
        return f"is ignored, as if not set; values: {', '.join(_PATHS)}, in capitals"
    is_number = name in _COUNTS or (_SWITCH.fullmatch(name) is not None and name in table())
    if (is_number or value.lower() in _WORDS) and value and not _NUMBER.match(value):
        return "is read as 0, without an error: only numbers are read"
    return ""

"""Variables of NCCL and PyTorch: which are outdated, and which are for the search of a fault."""

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
# A graph that someone found for one topology, and what writes a file in every job.
_EXPERIMENT = re.compile(r"NCCL_(GRAPH_FILE|\w+_DUMP_FILE)")
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
    return _EXPERIMENT.fullmatch(name) is not None or (row is not None and row.kind == "debug")

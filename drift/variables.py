"""Environment variables of NCCL and PyTorch: which there are, and what is wrong with a value."""

from __future__ import annotations

import re
from difflib import get_close_matches
from functools import cache
from typing import NamedTuple

from drift.builds import rows

# Classes of names that no library reads, and never did.
NEVER = "never-existed"
# Families of which the table has every name.
_WHOLE = ("NCCL_", "TORCH_NCCL_", "TORCH_FR_")
# A plugin reads names that nobody else knows.
_PLUGINS = ("NCCL_NET_", "NCCL_TUNER_", "NCCL_PROFILER_", "NCCL_ENV_", "NCCL_GIN_", "NCCL_OFI_")
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
# What strtoll(3) takes for a number, base 0: what follows it is passed over without a word.
_NUMBER = re.compile(r"\s*[+-]?(0[xX][0-9a-fA-F]|[0-9])")
_SWITCH = re.compile(r"NCCL_\w+_(DISABLE|ENABLE)")
_WORDS = ("true", "false", "yes", "no", "on", "off", "enable", "disable", "enabled", "disabled")
# Since when NCCL's guide says to leave NCCL_IB_GID_INDEX unset.
_GID_BY_ITSELF = (2, 21)
Version = tuple[int, ...]


class Variable(NamedTuple):
    """A row of nccl_env.tsv; `since` and `until` are None where the table does not say."""

    name: str
    kind: str
    since: Version | None
    until: Version | None
    use_instead: str
    note: str


@cache
def table() -> dict[str, Variable]:
    """Return every known name."""
    return {row["name"]: _variable(row) for row in rows("nccl_env.tsv")}


def _variable(row: dict[str, str]) -> Variable:
    # "<=2.3.5" is older than anything in use, ">=2.2.0" the first release without it.
    since = None if row["since"].startswith("<") else _version(row["since"])
    until = _version(row["until"]) if not row["until"].startswith(">") else None
    kind, use_instead = row["class"], row["use_instead"]
    return Variable(row["name"], kind, since, until, use_instead, row["note"])


def _version(text: str) -> Version | None:
    return tuple(map(int, text.split("."))) if re.fullmatch(r"[0-9.]+", text) else None


def is_unknown(name: str) -> bool:
    """Whether nothing reads a variable of that name, or ever did."""
    row = table().get(name)
    if row is not None:
        return row.kind == NEVER
    if name.startswith(_PLUGINS):
        return bool(get_close_matches(name, table(), n=1, cutoff=0.9))
    return name.startswith(_WHOLE)


def suggestion(name: str) -> str:
    """Return the name that was meant, or what to do in its place; empty where nobody can tell."""
    row = table().get(name)
    if row is not None:
        return (row.use_instead and f"{row.use_instead} ({row.note})") or row.note
    read = [each.name for each in table().values() if each.kind not in _GONE]
    close = get_close_matches(name, read, n=1, cutoff=0.8)
    return close[0] if close else ""


_GONE = (NEVER, "removed", "documented-but-gone", "torch-old-name", "torch-removed", "not-runtime")


def outdated(name: str, nccl: Version | None, torch: Version | None) -> str:
    """Say why a name is not read, or by another name, by what is in use; empty if it is."""
    row = table().get(name)
    if row is None:
        return ""
    if row.kind == "torch-old-name":
        return f"PyTorch's name of old: from torch 2.2 on it is {row.use_instead}"
    if row.kind == "torch-removed":
        return "" if torch is not None and torch < (2, 8) else "no longer read by PyTorch"
    if row.kind == "torch":
        renamed = row.use_instead and torch is not None and torch >= (2, 9)
        return f"renamed in torch 2.9: {row.use_instead}" if renamed else ""
    return _outside(row, nccl)


def _outside(row: Variable, nccl: Version | None) -> str:
    gone = row.kind == "documented-but-gone"
    if gone and row.until is None:
        return "documented, and read by no NCCL that is in use anywhere"
    if nccl is None:
        return f"no longer read since NCCL {_text(row.until)}" if gone else ""
    if row.until is not None and nccl > row.until:
        instead = f", use {row.use_instead}" if row.use_instead else ""
        return f"last read by NCCL {_text(row.until)}, and {_text(nccl)} is in use{instead}"
    if row.name == "NCCL_IB_GID_INDEX" and nccl >= _GID_BY_ITSELF:
        return f"NCCL {_text(nccl)} finds the index by itself, and a fixed one may be wrong"
    if row.since is not None and nccl < row.since:
        return f"not known before NCCL {_text(row.since)}, and {_text(nccl)} is in use"
    return ""


def _text(version: Version | None) -> str:
    return ".".join(map(str, version or ()))


def is_debug(name: str, value: str) -> bool:
    """Whether a setting is for the search of a fault, and slow or loud if it stays."""
    if name in _LOUD:
        return value.strip().upper() in _LOUD[name]
    row = table().get(name)
    return row is not None and row.kind == "debug"


def misread(name: str, value: str) -> str:
    """Say what a value is taken for that is none; empty where it is one."""
    if not name.startswith("NCCL_"):
        return ""
    if value.endswith("\r"):
        return "a CR at its end, which belongs to the value"
    if name == "NCCL_DEBUG" and value.upper() not in _LEVELS:
        return (
            f"no level: NCCL then prints nothing, not even warnings; there are {', '.join(_LEVELS)}"
        )
    is_switch = _SWITCH.fullmatch(name) is not None and name in table()
    if (is_switch or value.lower() in _WORDS) and value and not _NUMBER.match(value):
        return "0, without a word: only numbers are read"
    return ""

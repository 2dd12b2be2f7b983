"""Environment variables of NCCL, PyTorch and jobs: the names there are, and how values are read."""

from __future__ import annotations

import csv
import re
from difflib import get_close_matches
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple

from gpu_node.inventories.versions import numbers

_TABLE = Path(__file__).parent / "nccl_env.tsv"
# Classes of names that no library reads, and never did.
NEVER = "never-existed"
# The class of names whose values belong to one process or job.
LAUNCHER = "launcher"
# Those of names that were read once.
GONE = ("removed", "documented-but-gone", "torch-old-name", "torch-removed")
# Classes whose names were looked for in each NCCL release: without `since`, older than all.
_OF_TAGS = ("system", "debug", "undocumented", "removed", "documented-but-gone")
# Families of which the table has every name; of others it has the most frequent ones.
FAMILIES = ("NCCL_", "TORCH_NCCL_", "TORCH_FR_")
# A plugin reads names that no other program knows.
_PLUGINS = ("NCCL_NET_", "NCCL_TUNER_", "NCCL_PROFILER_", "NCCL_ENV_", "NCCL_GIN_", "NCCL_OFI_")
_LEVELS = ("VERSION", "WARN", "INFO", "TRACE", "ABORT")
# How far apart two GPUs may be, as NCCL's src/graph/paths.cc compares it, or a number of old.
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
# The words that a variable may have.
WORDS_OF = {
    "NCCL_DEBUG": _LEVELS,
    **dict.fromkeys(("NCCL_P2P_LEVEL", "NCCL_NET_GDR_LEVEL"), _PATHS),
}
_WORDS = ("true", "false", "yes", "no", "on", "off", "enable", "disable", "enabled", "disabled")
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
    with _TABLE.open(encoding="utf-8", newline="") as source:
        lines = (line for line in source if not line.startswith("#"))
        return {row["name"]: _variable(row) for row in csv.DictReader(lines, delimiter="\t")}


def _variable(row: dict[str, str]) -> Variable:
    # "<=2.3.5" is older than anything in use, ">=2.2.0" the first release without it.
    since, until = (numbers(row[key]) or None for key in ("since", "until"))
    kind, use_instead = row["class"], row["use_instead"]
    return Variable(row["name"], kind, since, until, use_instead, row["note"])


@lru_cache(1 << 10)
def is_unknown(name: str) -> bool:
    """Whether nothing reads a variable of that name, or ever did."""
    row = table().get(name)
    if row is not None:
        return row.kind == NEVER
    is_ours = name.startswith(FAMILIES)
    if is_ours and not name.startswith(_PLUGINS):
        return True
    # What looks like a name of another library may be its own: HCCL_SOCKET_IFNAME.
    close = get_close_matches(name.upper(), _meant(), n=1, cutoff=0.9)
    return any(each.startswith(FAMILIES) == is_ours for each in close)


def suggestion(name: str) -> str:
    """Return the name that was meant, or what to do in its place; empty where unknown."""
    row = table().get(name)
    if row is not None:
        return (row.use_instead and f"{row.use_instead} ({row.note})") or row.note
    near = _nearest(name)
    if near is None or near.kind not in GONE:
        return near.name if near else ""
    return f"{near.use_instead} (formerly {near.name})" if near.use_instead else ""


def real(name: str) -> tuple[str, str]:
    """Return the real name nearest to an unknown one, and which versions read it.

    Both are empty where none is near, or where the table does not say who reads it.
    """
    row = table().get(name)
    near = table().get(row.use_instead) if row is not None else _nearest(name)
    return (near.name, _read_by(near)) if near is not None else ("", "")


def _read_by(row: Variable) -> str:
    """Return which versions read a name: "NCCL 2.13.4 to 2.30.4"; empty where unknown."""
    if row.kind == "torch":
        return "PyTorch"
    if row.kind not in _OF_TAGS or (row.kind in GONE and row.until is None):
        return ""
    if row.until is not None:
        return f"NCCL {as_text(row.since) or 'before 2.3.5'} to {as_text(row.until)}"
    return f"every NCCL since {as_text(row.since)}" if row.since else "every NCCL"


def meant_in_vain(name: str) -> str:
    """Return the name nearest to an unknown one, where that is read no more, either."""
    near = None if name in table() else _nearest(name)
    return near.name if near and near.kind in GONE and not near.use_instead else ""


@lru_cache(1 << 10)
def _nearest(name: str) -> Variable | None:
    """Return the row of the name that was probably meant, in whichever case it is written.

    Several rules ask, and many nodes have the same name.
    """
    upper = name.upper()
    whole = [each for each in (upper, f"NCCL_{upper}") if each in _meant()]
    close = whole or get_close_matches(upper, _meant(), n=1, cutoff=0.8)
    return table()[close[0]] if close else None


@cache
def _meant() -> tuple[str, ...]:
    """Return the names that a library reads, or once read."""
    kinds = (NEVER, "not-runtime")
    return tuple(each.name for each in table().values() if each.kind not in kinds)


def is_unknown_in_conf(name: str) -> bool:
    """Whether a name of NCCL's own files is one that NCCL reads in another case, or with NCCL_."""
    if name.startswith("NCCL_"):
        return False
    upper = name.upper()
    return upper.startswith("NCCL_") or f"NCCL_{upper}" in _meant()


def as_text(version: Version | None) -> str:
    return ".".join(map(str, version or ()))


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
    is_distance = WORDS_OF.get(name) is _PATHS
    if is_distance and value and value not in _PATHS and not value[0].isdecimal():
        return f"is ignored, as if not set; values: {', '.join(_PATHS)}, in capitals"
    is_number = name in _COUNTS or (_SWITCH.fullmatch(name) is not None and name in table())
    if (is_number or value.lower() in _WORDS) and value and not _NUMBER.match(value):
        return "is read as 0, without an error: only numbers are read"
    return ""

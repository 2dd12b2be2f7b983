"""Environment variables of NCCL and PyTorch: which there are, and which name was meant."""

from __future__ import annotations

import csv
import re
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import NamedTuple

_TABLE = Path(__file__).parent / "nccl_env.tsv"
# Classes of names that no library reads, and never did.
NEVER = "never-existed"
# Those of names that were read once.
GONE = ("removed", "documented-but-gone", "torch-old-name", "torch-removed")
# Classes whose names were looked for in each NCCL release: without `since`, older than all.
_OF_TAGS = ("system", "debug", "undocumented", "removed", "documented-but-gone")
# Families of which the table has every name.
_WHOLE = ("NCCL_", "TORCH_NCCL_", "TORCH_FR_")
# A plugin reads names that no other program knows.
_PLUGINS = ("NCCL_NET_", "NCCL_TUNER_", "NCCL_PROFILER_", "NCCL_ENV_", "NCCL_GIN_", "NCCL_OFI_")
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


def _nearest(name: str) -> Variable | None:
    """Return the row of the name that was probably meant, in whichever case it is written."""
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

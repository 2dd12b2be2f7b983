"""Dumps of torch's flight recorder: what a rank waited for, read without building an object."""

from __future__ import annotations

import io
import pickle
from dataclasses import dataclass
from typing import Any, NoReturn

from typing_extensions import override

from gpu_node.diagnose.sources import Log, blocks

_MOST = 16 * 1024 * 1024
_SHOWN = 200


@dataclass(frozen=True)
class Flight:
    """A dump: `waiting` is the first collective that did not end; `error` why it is unread."""

    log: str
    rank: int | None
    waiting: str = ""
    sequence: int | None = None
    error: str = ""


class _Plain(pickle._Unpickler):
    """Builds dicts, lists, texts and numbers; a pickle that names a class or function is refused.

    The unpickler in C reserves as much memory for its memo as a pickle says.
    """

    @override
    def find_class(self, module: str, name: str) -> NoReturn:
        raise pickle.UnpicklingError(f"it names {module[:100]}.{name[:100]}")

    @override
    def persistent_load(self, pid: object) -> NoReturn:
        raise pickle.UnpicklingError("it refers to something outside of itself")


def read_flight(log: Log) -> Flight:
    """Return what a dump says; what it is not able to say is in `error`."""
    data = b""
    for block in blocks(log, []):
        data += block
        if len(data) > _MOST:
            return Flight(log.name, log.rank, error=f"larger than {_MOST >> 20} MiB")
    try:
        dump = _Plain(io.BytesIO(data)).load()
    except Exception as error:  # what a broken pickle raises is listed nowhere
        return Flight(log.name, log.rank, error=f"not a plain pickle: {error}"[:_SHOWN])
    entries = dump.get("entries") if isinstance(dump, dict) else None
    if not isinstance(entries, list):
        return Flight(log.name, log.rank, error="not a dump of the flight recorder: no `entries`")
    return _flight(log, [each for each in entries if isinstance(each, dict)])


def _flight(log: Log, entries: list[dict[Any, Any]]) -> Flight:
    for entry in entries:
        if entry.get("state") not in ("completed", None):
            sequence = entry.get("collective_seq_id", entry.get("seq_id"))
            number = sequence if isinstance(sequence, int) and 0 <= sequence < 1 << 53 else None
            what = _text(entry.get("profiling_name"), "a collective")
            return Flight(log.name, log.rank, f"{what} ({_text(entry['state'], '?')})", number)
    return Flight(log.name, log.rank)


def _text(value: object, other: str) -> str:
    """Return a text as it is: another object may hold itself many times."""
    return value[:_SHOWN] if isinstance(value, str) else other

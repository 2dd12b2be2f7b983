"""What the beginning of a line says of its origin: rank, node and time."""

import re
from dataclasses import dataclass

from gpu_node.diagnose.cause import table

# How far into a line its origin is looked for.
_HEAD = 300
_ROWS = table("prefixes")
_PREFIXES = tuple(map(re.compile, _ROWS["prefixes"]))
_NO_NODES = re.compile("|".join(_ROWS["no nodes"]))
_WRITTEN = re.compile(_ROWS["written"])
_NCCL = re.compile(r"(?P<node>[\w.-]{1,63}):\d+:\d+ \[(?P<local>-?\d+)\] (?:\w+ )?NCCL ")
_ADVICE = re.compile(r"\b(?:WARNING|INFO|DEBUG)\b(?! NCCL)")
_RANK = re.compile(r"\[[Rr]ank (\d{1,6})\]|\b[Rr]ank (\d{1,6})\b")
_TIME = re.compile(
    r"(?P<date>\d{4}-\d\d-\d\d)[ T](?P<time>\d\d:\d\d:\d\d)(?:[.,](?P<part>\d{1,9}))?"
    r"|\[?[EWIF](?P<month>\d\d)(?P<day>\d\d) (?P<clock>\d\d:\d\d:\d\d)(?:\.(?P<rest>\d{1,9}))?"
)


@dataclass(frozen=True)
class Origin:
    """`rank` is global, of the line or else of its log; `stream` is one process of a log.

    `when` is a text that sorts as time does, "" if the line has none; glog writes no year.
    `is_advice`: a logger marks the line as less than an error, or a model wrote it (`is_written`).
    """

    rank: int | None = None
    node: str | None = None
    when: str = ""
    stream: str = ""
    is_advice: bool = False
    is_written: bool = False


def split(line: str, of_log: int | None = None) -> tuple[str, Origin]:
    """Return a line without its prefixes, and its origin; `of_log` is the rank of its log."""
    at, rank, local, node = 0, None, None, None
    while match := _prefix(line, at):
        found = match.groupdict()
        name = found.get("node")
        if name and _NO_NODES.fullmatch(name):
            break
        rank = rank if found.get("rank") is None else found["rank"]
        local = local or found.get("local")
        node = node or name
        at = match.end()
    head = line[:_HEAD]
    if (match := _NCCL.search(head)) is not None:
        node, local = node or match["node"], local or match["local"]
    stream = f"{node or ''}/{rank or ''}/{local or ''}"
    if rank is None and (match := _RANK.search(head)):
        rank = match[1] or match[2]
    number = of_log if rank is None else int(rank)
    is_written = bool(_WRITTEN.match(line, at))
    is_advice = is_written or bool(_ADVICE.search(head))
    return line[at:], Origin(number, node, _when(head), stream, is_advice, is_written)


def _prefix(line: str, at: int) -> re.Match[str] | None:
    matches = (pattern.match(line, at, at + _HEAD) for pattern in _PREFIXES)
    return next((match for match in matches if match), None) if at < _HEAD else None


def _when(head: str) -> str:
    if (match := _TIME.search(head)) is None:
        return ""
    if match["date"]:
        return f"{match['date']} {match['time']}.{(match['part'] or '').ljust(9, '0')}"
    rest = (match["rest"] or "").ljust(9, "0")
    return f"{match['month']}-{match['day']} {match['clock']}.{rest}"


def in_year(when: str, other: str) -> str:
    """Return a time with the year in which it is nearest to another time of the same job."""
    if when[2:3] != "-":
        return when
    year, month = ("2000", other[:2]) if other[2:3] == "-" else (other[:4], other[5:7])
    later = int(when[:2]) - int(month)
    return f"{int(year) + (later < -6) - (later > 6):04}-{when}"

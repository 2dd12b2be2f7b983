"""What the beginning of a line says of its origin: rank, node and time."""

from __future__ import annotations

import re
from dataclasses import dataclass

# How far into a line its origin is looked for.
_HEAD = 300
_PREFIXES = tuple(
    re.compile(text)
    for text in (
        # torch: an exception that is not caught; a line of c10d has the rank inside as well.
        r"\[rank(?P<rank>\d{1,6})\]:\s?",
        # torchrun --tee, whose number is the local rank; so is a name that a user gives it.
        r"\[(?:default|trainer|worker)(?P<local>\d{1,6})\]:\s?",
        # mpirun --tag-output
        r"\[\d+,(?P<rank>\d{1,6})\]<std(?:out|err|diag)>:\s?",
        # Ray, and vLLM
        r"\((?:[\w.]+ )?(?:rank=(?P<rank>\d{1,6}) )?pid=\d+(?:, ip=(?P<node>[\w.:-]+))?\)\s?",
        # srun --label
        r"(?P<rank>\d{1,6}): ",
        # pdsh, DeepSpeed's launcher
        r"(?P<node>[A-Za-z](?=[\w.]*[\d-])[\w.-]{0,62}|\d{1,3}(?:\.\d{1,3}){3}):\s",
        # A timestamp, a level, in any kind of brackets.
        r"\[?\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d+)?Z?\]?:?\s+",
        r"\[?[EWIF]\d{4} \d\d:\d\d:\d\d(?:\.\d+)?(?: \d+)? [\w./]+:\d+\]\s*",
        r"\[(?:INFO|WARNING|ERROR|DEBUG|CRITICAL)\]\s*",
    )
)
_NCCL = re.compile(r"(?P<node>[\w.-]{1,63}):\d+:\d+ \[(?P<local>-?\d+)\] (?:\w+ )?NCCL ")
_ADVICE = re.compile(r"\b(?:WARNING|INFO|DEBUG)\b(?! NCCL)")
# What a model writes, as scripts print it.
_WRITTEN = re.compile(
    r"\W{0,3}(?:sample|generat(?:ed|ion)|prompt|completion|answer|assistant|response|output)"
    r"(?: (?:text|output))?(?: \d{1,6})?\W{0,2}:\s",
    re.IGNORECASE,
)
_RANK = re.compile(r"\[[Rr]ank (\d{1,6})\]|\b[Rr]ank (\d{1,6})\b")
_TIME = re.compile(
    r"(?P<date>\d{4}-\d\d-\d\d)[ T](?P<time>\d\d:\d\d:\d\d)(?:[.,](?P<part>\d{1,9}))?"
    r"|\[?[EWIF](?P<month>\d\d)(?P<day>\d\d) (?P<clock>\d\d:\d\d:\d\d)(?:\.(?P<rest>\d{1,9}))?"
)
# Classes of Python, and programs, stand where a host's name may.
_NO_NODES = re.compile(r".*(?:Error|Exception|Warning|Exit|Interrupt)|python[\d.]*|cc1.*|pdsh.*")


@dataclass(frozen=True)
class Origin:
    """`rank` is global, else None; `stream` is one process of a log.

    `when` is a text that sorts as time does, "" if the line has none. `is_advice`: a logger marks
    the line as less than an error, or a model wrote it.
    """

    rank: int | None = None
    node: str | None = None
    when: str = ""
    stream: str = ""
    is_advice: bool = False


def split(line: str) -> tuple[str, Origin]:
    """Return a line without its prefixes, and its origin."""
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
    number = None if rank is None else int(rank)
    is_advice = bool(_ADVICE.search(head) or _WRITTEN.match(line, at))
    return line[at:], Origin(number, node, _when(head), stream, is_advice)


def _prefix(line: str, at: int) -> re.Match[str] | None:
    matches = (pattern.match(line, at, at + _HEAD) for pattern in _PREFIXES)
    return next((match for match in matches if match), None) if at < _HEAD else None


def _when(head: str) -> str:
    if (match := _TIME.search(head)) is None:
        return ""
    if match["date"]:
        return f"{match['date'][5:]} {match['time']}.{(match['part'] or '').ljust(9, '0')}"
    rest = (match["rest"] or "").ljust(9, "0")
    return f"{match['month']}-{match['day']} {match['clock']}.{rest}"

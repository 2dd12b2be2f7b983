"""Finds the lines of logs that a cause's patterns may match, in one pass and bounded memory."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from functools import cached_property

import hyperscan

from gpu_node.diagnose.limited import Meter
from gpu_node.diagnose.origin import Origin, split
from gpu_node.diagnose.sources import Log, blocks

# How many lines before and after a line are near it.
NEAR = 25
# Of one text, how often it is looked at in a block: it may be on every line.
_MOST_A_BLOCK = 40
# How many bytes are kept of a line, and how many beside a block are near its lines.
KEPT, _BESIDE = 4096, 128 * 1024
# How many characters are looked at together: each line that is near twice, and the line itself.
NEAR_SIZE = (4 * NEAR + 1) * (KEPT + 1)
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\^_])")


@dataclass(frozen=True)
class Line:
    """A line of a log: `text` is without its prefixes.

    `order` sorts the lines of all logs as they were given. `data` has the line, which begins at
    `start`, and what is near it.
    """

    log: Log
    number: int
    text: str
    origin: Origin
    order: tuple[int, int]
    data: bytes
    start: int

    @cached_property
    def near(self) -> str:
        """The line and those that are near, also without their prefixes: at most NEAR_SIZE."""
        before, after = self.before(), self.after()
        # A pattern may be about the begin of a line, or about its prefix.
        texts = (split(each)[0] for each in (*before, *after))
        return "\n".join([*before, self.text, *after, *texts])

    def before(self) -> list[str]:
        """Return the lines before it that are near."""
        low = max(0, self.start - _BESIDE)
        return [
            _text(each) for each in self.data[low : max(0, self.start - 1)].split(b"\n")[-NEAR:]
        ]

    def after(self, most: int = NEAR) -> list[str]:
        """Return the lines after it that are near, or more of them."""
        low = self.data.find(b"\n", self.start, self.start + _BESIDE) + 1
        lines = self.data[low : low + _BESIDE].split(b"\n", most)[:most] if low else []
        return [_text(each) for each in lines]

    @property
    def rank(self) -> int | None:
        """As the line says, or else the name of its log."""
        return self.log.rank if self.origin.rank is None else self.origin.rank


@dataclass
class Size:
    """How much of a log was read, what was not, and the last of it."""

    tail: bytes = b""
    lines: int = 0
    bytes: int = 0
    lost: list[str] = field(default_factory=list)


class Scanner:
    """Looks for texts in logs."""

    def __init__(self, texts: Collection[str]) -> None:
        self._texts = [text.encode() for text in sorted(texts)]
        self._database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
        self._database.compile(
            expressions=self._texts,
            ids=list(range(len(self._texts))),
            elements=len(self._texts),
            flags=[hyperscan.HS_FLAG_SINGLEMATCH] * len(self._texts),
            literal=True,
        )

    def lines(self, log: Log, index: int, size: Size, meter: Meter) -> Iterator[Line]:
        """Yield the lines of a log that have one of the texts, each once, in their order."""
        kept, begin, number = b"", 0, 1
        for block, is_last in _with_last(blocks(log, size.lost, meter)):
            size.bytes += len(block)
            data = kept + block
            end = len(data) if is_last else data.rfind(b"\n", begin, len(data) - _BESIDE) + 1
            if end <= begin and not is_last:
                # A line without an end, or a small block: what is near is not here yet.
                if len(data) - begin < 4 * _BESIDE:
                    kept = data
                    continue
                end = len(data) - _BESIDE
            at = begin
            for start in self._starts(data, begin, end):
                number += data.count(b"\n", at, start)
                at = start
                yield _line(log, index, number, data, start)
            number += data.count(b"\n", at, end)
            cut = max(0, end - _BESIDE)
            kept, begin = data[cut:], end - cut
        size.lines += number - 1 + bool(size.bytes and kept[-1:] != b"\n")
        size.tail = kept

    def _starts(self, data: bytes, begin: int, end: int) -> list[int]:
        present: list[int] = []
        part = data[begin:end]
        self._database.scan(part, match_event_handler=lambda which, *_: present.append(which))
        starts: set[int] = set()
        for text in (self._texts[each] for each in present):
            at = begin
            for _ in range(_MOST_A_BLOCK):
                at = data.find(text, at, end)
                if at < 0:
                    break
                starts.add(_start_of_line(data, at))
                at += len(text)
        return sorted(starts)


def _start_of_line(data: bytes, at: int) -> int:
    """Return where a line begins as a terminal shows it: progress bars print over themselves."""
    low = max(0, at - _BESIDE)
    return max(data.rfind(b"\n", low, at), data.rfind(b"\r", low, at), low - 1) + 1


def _with_last(parts: Iterator[bytes]) -> Iterator[tuple[bytes, bool]]:
    """Yield each part, and whether it is the last; an empty one for no part."""
    part = next(parts, b"")
    for following in parts:
        yield part, False
        part = following
    yield part, True


def _line(log: Log, index: int, number: int, data: bytes, start: int) -> Line:
    text, origin = split(_shown(data[start : start + KEPT]))
    return Line(log, number, text, origin, (index, number), data, start)


def _shown(data: bytes) -> str:
    """Return the first line of some bytes, to where a progress bar begins anew."""
    return _text(re.split(rb"\r?\n|\r", data, maxsplit=1)[0])


def shown_parts(line: bytes) -> list[str]:
    """Return what a line shows one after the other: a progress bar prints over itself."""
    return [_ESCAPES.sub("", _decoded(part)) for part in line.rstrip(b"\r").split(b"\r")]


def _decoded(data: bytes) -> str:
    return data[-KEPT:].decode("utf-8", "replace")


def _text(line: bytes) -> str:
    """Return a line as a terminal leaves it."""
    text = _decoded(line).rstrip("\r")
    return _ESCAPES.sub("", text.rpartition("\r")[2])

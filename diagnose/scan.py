"""Finds the lines of logs that a cause's patterns may match, in one pass and bounded memory."""

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import chain

import hyperscan

from gpu_node.diagnose.cause import UNKNOWN, stages
from gpu_node.diagnose.limited import Meter
from gpu_node.diagnose.origin import Origin, split
from gpu_node.diagnose.sources import Log, blocks

# How many lines before and after a line are near it.
NEAR = 25
# How many lines before one say what the job did last.
_STAGE = 100
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

    @property
    def whole(self) -> str:
        """The line with its prefixes."""
        return _shown(self.data[self.start : self.start + KEPT])

    @cached_property
    def near(self) -> str:
        """The line and those that are near, also without their prefixes: at most NEAR_SIZE."""
        before, after = self.before(), self.after()
        # A pattern may be about the begin of a line, or about its prefix.
        texts = (split(each)[0] for each in (*before, *after))
        return "\n".join([*before, self.text, *after, *texts])

    @cached_property
    def stage(self) -> str:
        """What the lines before it say that the job did last, whatever process says it."""
        texts = (split(each)[0] for each in reversed(self.before(_STAGE)))
        # What is indented is a frame of a traceback, with the code of a stage.
        own = (text for text in texts if not text.startswith(" "))
        found = (name for text in own for name, of in stages().items() if of.search(text))
        return next(found, UNKNOWN)

    def before(self, most: int = NEAR) -> list[str]:
        """Return the lines before it that are near, or more of them."""
        low = max(0, self.start - _BESIDE)
        lines = self.data[low : max(0, self.start - 1)].split(b"\n")
        return [_text(each) for each in lines[-most:]]

    def after(self, most: int = NEAR) -> list[str]:
        """Return the lines after it that are near, or more of them."""
        low = self.data.find(b"\n", self.start, self.start + _BESIDE) + 1
        lines = self.data[low : low + _BESIDE].split(b"\n", most)[:most] if low else []
        return [_text(each) for each in lines]


@dataclass
class Size:
    """How much of a log was read, what was not, and the last of it."""

    tail: bytes = b""
    lines: int = 0
    lost: list[str] = field(default_factory=list)


class Scanner:
    """Looks for texts in logs."""

    def __init__(self, texts: Collection[str]) -> None:
        self._texts, self._database = _compiled(frozenset(texts))

    def lines(self, log: Log, index: int, size: Size, meter: Meter) -> Iterator[Line]:
        """Yield the lines of a log that have one of the texts, each once, in their order."""
        kept, begin, number = b"", 0, 1
        for block in chain(blocks(log, size.lost, meter), (b"",)):
            data = kept + block
            end = data.rfind(b"\n", begin, len(data) - _BESIDE) + 1 if block else len(data)
            if end <= begin and block:
                # A line without an end, or a small block: what is near is not here yet.
                if len(data) - begin < 4 * _BESIDE:
                    kept = data
                    continue
                end = len(data) - _BESIDE
            at = begin
            for start in self._starts(data, begin, end):
                number += data.count(b"\n", at, start)
                at = start
                text, origin = split(_shown(data[start : start + KEPT]), log.rank)
                yield Line(log, number, text, origin, (index, number), data, start)
            number += data.count(b"\n", at, end)
            cut = max(0, end - _BESIDE)
            kept, begin = data[cut:], end - cut
        size.lines += number - 1 + (kept[-1:] not in (b"", b"\n"))
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


@lru_cache(4)
def _compiled(texts: frozenset[str]) -> tuple[list[bytes], hyperscan.Database]:
    expressions = [text.encode() for text in sorted(texts)]
    database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
    flags = [hyperscan.HS_FLAG_SINGLEMATCH] * len(texts)
    database.compile(expressions, ids=[*range(len(texts))], flags=flags, literal=True)
    return expressions, database


def _start_of_line(data: bytes, at: int) -> int:
    """Return where a line begins as a terminal shows it: progress bars print over themselves."""
    low = max(0, at - _BESIDE)
    return max(data.rfind(b"\n", low, at), data.rfind(b"\r", low, at), low - 1) + 1


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
    return _ESCAPES.sub("", _decoded(line.rstrip(b"\r").rpartition(b"\r")[2]))

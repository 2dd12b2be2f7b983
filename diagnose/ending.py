"""How a log ends: which processes go on after a failure, and which lose their loss."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator

from gpu_node.diagnose.match import Evidence, Match
from gpu_node.diagnose.origin import Origin, split
from gpu_node.diagnose.scan import Size, shown_parts
from gpu_node.diagnose.sources import Log

# A failure from which a job recovered is followed by so many lines without another.
RECOVERED = 15
_MOST_STREAMS, _SHOWN = 1000, 400
# Ranks that print into the log of one that failed stop after fewer steps: they wait for it.
_STEPS = 10
_PROGRESS = re.compile(
    r"\b(?:global_)?(?:step|epoch|iter(?:ation)?)s?['\"]?[\s:=\[#/]{1,3}\d"
    r"|\b[\w./-]{0,40}loss['\"]?\s{0,2}[=:]?\s{0,2}-?\d"
    r"|\b(?:saved|rebuilt|exits successfully)\b"
    r"|\bexit(?:ed)?(?: with)?(?: exit)? (?:code|status)[ :=]{1,3}0\b"
    r"|\b(?:train|fit|evaluat|epoch|test|inference)\w{0,5}\W{1,3}(?:is |was |has )?"
    r"(?:finished|completed?|done|stopped|ended)\b",
    re.IGNORECASE,
)
_NO_PROGRESS = re.compile(
    r"error|exception|fail|abort|kill|traceback|cannot|could not|unable|timed? ?out|nan\b"
    r"|^\s*(?:File |wandb:)",
    re.IGNORECASE,
)
# A progress bar is printed once more when its process ends with an exception.
_BAR = re.compile(r"\b(\d{1,12})/(\d{1,12}) \[")
# What is printed at the end of a failed run as well.
_SUMMARY = "wandb:"
_LOSS = re.compile(
    r"(?<![\w/-])(?:train(?:ing)?[_/ -])?(?:lm[_ -])?loss(?:/train)?"
    r"['\"]?(?:\s{0,3}[=:|]|\sis)?\s{0,3}"
    r"(?:tensor\()?(?P<value>[-+]?(?:nan|inf(?:inity)?|\d[\d.]{0,30}(?:e[-+]?\d{1,4})?))"
    r"(?!\w)",
    re.IGNORECASE,
)
# What a program of any kind says before it ends, where no cause has its words.
_LAST_WORDS = re.compile(
    r"\b(?:FATAL|CRITICAL)\b|\bERROR\b.{1,200}\b(?:exiting|aborting|giving up|gave up)\b"
    r"|: exec format error$|^make: \*\*\* \[.{1,200}\] Error \d"
)
# Such words are the last if not more lines follow.
_FOLLOW = 3
# The name of what they show, and the cause of a job whose last loss is no number.
LAST_WORDS = "last words"
_DIVERGES = "loss-diverges"


class Ending:
    """What the last lines of a log show of each process."""

    def __init__(self, log: Log, index: int, size: Size) -> None:
        self._log, self._index = log, index
        # A line before this one is followed by RECOVERED lines.
        self._settled = 0
        self._last = 0
        # The last lines of a process that say progress.
        self._progress: dict[str, deque[int]] = {}
        self._bars: dict[tuple[str, str], list[tuple[int, str]]] = {}
        self._losses: dict[str, Evidence | None] = {}
        self._words: Evidence | None = None
        raw = size.tail.removesuffix(b"\n").split(b"\n")
        kept: list[int] = []
        for number, line in enumerate(raw, size.lines - len(raw) + 1):
            for part in shown_parts(line):
                self._take(number, part)
            if line.strip():
                self._last = number
            if not part.startswith(_SUMMARY):
                kept = [*kept[1 - RECOVERED :], number]
        if len(kept) == RECOVERED:
            self._settled = kept[0]
        elif len(raw) < size.lines:
            self._settled = size.lines - len(raw)

    def goes_on(self, stream: str, number: int) -> bool:
        """Whether a process makes progress after a line, or much is printed after it."""
        bars = (places for (of, _), places in self._bars.items() if of == stream)
        return (
            number < self._settled
            or bool((steps := self._progress.get(stream)) and steps[-1] > number)
            or any(places[0][0] > number for places in bars if len(places) > 1)
        )

    def recovers(self, stream: str, number: int) -> bool:
        """Whether a process makes progress after a line, for longer than other ranks would."""
        steps = self._progress.get(stream) or ()
        return len(steps) == _STEPS and min(steps) > number

    def last_words(self) -> Iterator[Match]:
        """Yield the line near the end that says that the program fails, whatever program it is."""
        if (line := self._words) is not None and self._last - line.number <= _FOLLOW:
            last = {(self._log.name, line.stream): line.number}
            yield Match(LAST_WORDS, "low", True, [line], last)

    def lost_losses(self) -> Iterator[Match]:
        """Yield the cause of processes whose last loss is no number."""
        lines = [line for line in self._losses.values() if line is not None]
        if lines:
            last = {(self._log.name, each.stream): each.number for each in lines}
            yield Match(_DIVERGES, "medium", True, lines, last, {self._log.name})

    def _take(self, number: int, line: str) -> None:
        text, origin = split(line)
        if _LAST_WORDS.search(text):
            self._words = self._evidence(number, text, origin)
        stream = origin.stream
        if stream not in self._progress and len(self._progress) >= _MOST_STREAMS:
            return
        steps = self._progress.setdefault(stream, deque(maxlen=_STEPS))
        bars = _BAR.findall(text)
        for done, whole in bars:
            if (stream, whole) not in self._bars and len(self._bars) >= _MOST_STREAMS:
                continue
            places = self._bars.setdefault((stream, whole), [])
            if not places or places[-1][1] != done:
                places.append((number, done))
                del places[:-2]
        if not bars and not _NO_PROGRESS.search(text) and _PROGRESS.search(text):
            steps.append(number)
        if losses := [each["value"] for each in _LOSS.finditer(text)]:
            lost = not all(each[-1] in "0123456789." for each in losses)
            self._losses[stream] = self._evidence(number, text, origin) if lost else None

    def _evidence(self, number: int, text: str, origin: Origin) -> Evidence:
        return Evidence(
            self._log.name,
            number,
            text[:_SHOWN],
            self._log.rank if origin.rank is None else origin.rank,
            origin.node,
            origin.when,
            (self._index, number),
            origin.stream,
        )

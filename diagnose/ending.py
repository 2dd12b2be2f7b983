"""How a log ends: which processes go on after a failure, and which lose their loss."""

from collections import deque
from collections.abc import Iterator

from gpu_node.diagnose.cause import progress
from gpu_node.diagnose.match import Evidence, Match, kept
from gpu_node.diagnose.origin import Origin, split
from gpu_node.diagnose.scan import Size, shown_parts
from gpu_node.diagnose.sources import Log

# A failure from which a job recovered is followed by so many lines without another.
RECOVERED = 15
_MOST_STREAMS, _SHOWN = 1000, 400
# Ranks that print into the log of one that failed stop after fewer steps: they wait for it.
_STEPS = 10
_SAYS = progress()
# What is printed at the end of a failed run as well.
_SUMMARY = "wandb:"
# Such words are the last if not more lines follow.
_FOLLOW = 3


class Ending:
    """What the last lines of a log show of each process."""

    def __init__(self, log: Log, index: int, size: Size) -> None:
        self._log, self._index = log, index
        # A line before this one is followed by RECOVERED lines.
        self._settled = 0
        self._last = 0
        # The last lines of a process that say progress.
        self._progress: dict[str, deque[int]] = {}
        # Of bars and counted steps, by their totals, the two last lines and how much is done.
        self._bars: dict[tuple[str, str], list[tuple[int, str]]] = {}
        self._done = self._finished = 0
        # The last line of each process, and its origin.
        self._lines: dict[str, tuple[int, str, Origin]] = {}
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
        """Whether a process makes progress after a line; a restarted job may have other ones."""
        bars = (places for (of, _), places in self._bars.items() if of == stream)
        settled = number < self._settled
        return (
            (settled and any(each[-1] > number for each in self._progress.values() if each))
            or bool((steps := self._progress.get(stream)) and steps[-1] > number)
            or any(places[0][0] > number for places in bars if len(places) > 1)
        )

    def recovers(self, stream: str, number: int) -> bool:
        """Whether a process makes progress after a line, for longer than other ranks would."""
        steps = self._progress.get(stream) or ()
        return len(steps) == _STEPS and min(steps) > number

    @property
    def works(self) -> bool:
        """Whether the log shows that the job works: steps that go on, or something done."""
        moves = any(len(places) > 1 for places in self._bars.values())
        return moves or bool(self._done) or any(len(steps) > 1 for steps in self._progress.values())

    @property
    def ends(self) -> bool:
        """Whether a line says the end, and no progress comes after it."""
        steps = (each[-1] for each in self._progress.values() if each)
        return 0 < self._finished >= max(steps, default=0)

    @property
    def stops_at(self) -> str:
        """The last step, of how many, if more are left and no later line says the end; or ""."""
        for (_, whole), places in self._bars.items():
            number, done = places[-1]
            stride = int(done) - int(places[0][1])
            if number > self._finished and int(whole) - int(done) > max(stride, 1):
                return f"{done} of {whole}"
        return ""

    def last_lines(self) -> Iterator[Evidence]:
        """Yield the last line of each process."""
        for number, text, origin in self._lines.values():
            yield self._kept(number, text, origin)

    def last_words(self) -> Iterator[Match]:
        """Yield the line near the end that says that the program fails, whatever program it is."""
        if (line := self._words) is not None and self._last - line.number <= _FOLLOW:
            last = {(self._log.name, line.stream): line.number}
            yield Match("last words", "low", True, [line], last)

    def lost_losses(self) -> Iterator[Match]:
        """Yield the cause of processes whose last loss is no number."""
        lines = [line for line in self._losses.values() if line is not None]
        if lines:
            last = {(self._log.name, each.stream): each.number for each in lines}
            yield Match("loss-diverges", "medium", True, lines, last, {self._log.name})

    def _take(self, number: int, line: str) -> None:
        text, origin = split(line, self._log.rank)
        if _SAYS["last words"].search(text):
            self._words = self._kept(number, text, origin)
        stream = origin.stream
        if stream not in self._progress and len(self._progress) >= _MOST_STREAMS:
            return
        steps = self._progress.setdefault(stream, deque(maxlen=_STEPS))
        if text.strip():
            self._lines[stream] = number, text, origin
        bars = _SAYS["bar"].findall(text)
        for done, whole in (*bars, *_SAYS["count"].findall(text)):
            if (stream, whole) not in self._bars and len(self._bars) >= _MOST_STREAMS:
                continue
            places = self._bars.setdefault((stream, whole), [])
            if not places or places[-1][1] != done:
                places.append((number, done))
                del places[:-2]
        if not bars and not _SAYS["no progress"].search(text):
            if _SAYS["finished"].search(text):
                self._finished = self._done = number
            elif _SAYS["done"].search(text):
                self._done = number
            if number == self._done or _SAYS["step"].search(text):
                steps.append(number)
        if losses := [each["value"] for each in _SAYS["loss"].finditer(text)]:
            lost = not all(each[-1] in "0123456789." for each in losses)
            self._losses[stream] = self._kept(number, text, origin) if lost else None

    def _kept(self, number: int, text: str, origin: Origin) -> Evidence:
        return kept(self._log, (self._index, number), text[:_SHOWN], origin)

"""Matches: the lines of logs that show a cause, or an exception that no cause knows."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from gpu_node.diagnose.cause import PROGRAM, Cause, Confidence, Pattern, meant, raised, speakers
from gpu_node.diagnose.origin import Origin, split
from gpu_node.diagnose.scan import Line
from gpu_node.diagnose.sources import Log

# The texts that an exception of Python has, and its name at the beginning of a line.
TRACEBACK = "Traceback (most recent call last)"
EXCEPTIONS = (TRACEBACK, "Error: ", "Exception: ", "Error\n")
_EXCEPTION = re.compile(
    r"(?:E\s{1,7})?(?P<name>(?:[A-Za-z_]\w{0,99}\.){0,8}(?:[A-Z]\w{0,99}|(?<=\.))(?:Error|Exception|Timeout|Exit|Interrupt))"
    r"(?::\s|$)"
)
# The end of a traceback, whatever the name of its class.
_ENDING = re.compile(r"(?P<name>(?:[A-Za-z_]\w{0,99}\.){0,8}[A-Z]\w{0,99})(?::\s|$)")
_IGNORED = "Exception ignored in"
# torch raises the exception of a worker once more: torch/_utils.py.
_CAUGHT = re.compile(r"[\w.]{1,100}: Caught \w{1,100} in .{1,200}\.$")
_ORIGINAL = "Original " + TRACEBACK
_FRAME = re.compile(r'\s{0,40}File "(?P<path>[^"]{1,500})", line (?P<line>\d{1,7})')
_LIBRARY = re.compile(
    r"/(?:site|dist)-packages/|/lib/python\d|<frozen |/opt/conda/lib/"
    r"|/bin/(?:torchrun|deepspeed|accelerate|ray|vllm)(?:$|:)"
)
# How long a traceback may be, in lines.
_TRACEBACK = 400
# How many lines of a cause are kept, and how many exceptions.
_MOST, _MOST_EXCEPTIONS = 50, 1000
RANKED: tuple[Confidence, ...] = ("high", "medium", "low")


@dataclass(frozen=True)
class Evidence:
    """A line that shows something: where it is, who printed it, when.

    `stream` is the process of its log, as its prefixes name it.
    """

    log: str
    number: int
    text: str
    rank: int | None
    node: str | None
    when: str
    order: tuple[int, int]
    stream: str = ""


@dataclass
class Match:
    """A cause, or an exception by its name, and the lines that show it, the first first.

    `last`: the number of the last line of each process of a log. `final`: the logs in which no job
    goes on after it. `frames`: by the order of its line where the user's program called what raised
    an exception, and the file that raised it. `is_own`: a line is an error of who failed, and names
    the cause. `more`: what it says beside the cause.
    """

    name: str
    confidence: Confidence
    alone: bool
    lines: list[Evidence] = field(default_factory=list)
    last: dict[tuple[str, str], int] = field(default_factory=dict)
    final: set[str] = field(default_factory=set)
    frames: dict[tuple[int, int], tuple[str, str]] = field(default_factory=dict)
    is_own: bool = False
    more: str = ""

    @property
    def first(self) -> Evidence:
        """The first line, in the order in which the logs were given."""
        return min(self.lines, key=lambda line: line.order)

    @property
    def raised(self) -> tuple[str, str]:
        """Where the first of these exceptions that has a traceback was raised; what it means."""
        lines = ((each, *self.frames.get(each.order, ("", ""))) for each in self.lines)
        line, place, file = next((each for each in lines if each[1]), (self.lines[0], "", ""))
        return place, raised(line.text, file)


def kept(log: Log, order: tuple[int, int], text: str, of: Origin) -> Evidence:
    """Return what is kept of a line without its prefixes."""
    return Evidence(log.name, order[1], text, of.rank, of.node, of.when, order, of.stream)


def evidence(line: Line) -> Evidence:
    """Return what is kept of a line that was found."""
    return kept(line.log, line.order, line.text, line.origin)


class Matcher:
    """Judges lines by the patterns of causes; collects what matches."""

    def __init__(self, causes: Iterable[Cause]) -> None:
        self._patterns = [(each.has, each, cause) for cause in causes for each in cause.patterns]
        self._of_others = {of.name for *_, of in self._patterns if of.level == "consequence"}
        self.causes: dict[str, Match] = {}
        self.exceptions: dict[str, Match] = {}
        # Errors that no cause has, by who prints them, and by the causes of what they are about.
        self.errors: dict[str, Match] = {}
        self.meant: dict[str, Match] = {}
        # Of each log the last line by which a process ended.
        self.ends: dict[int, tuple[int, int]] = {}
        self._known: set[tuple[int, int]] = set()
        self._ignored: set[tuple[int, int]] = set()

    def texts(self) -> set[str]:
        """What lines must be found by."""
        texts = {has for has, _, _ in self._patterns} | {*EXCEPTIONS}
        return texts | {each.has for each in speakers()}

    def take(self, line: Line) -> None:
        """Judge a line."""
        text = line.text
        is_raised = bool(_EXCEPTION.match(text))
        if line.order in self._ignored or (line.origin.is_written and not is_raised):
            return
        if is_raised and _CAUGHT.match(text) and _ORIGINAL in "".join(line.after(1)):
            return
        for has, pattern, cause in self._patterns:
            if has in text and matches(pattern, line):
                self._known.add(line.order)
                # What ends a program is a failure, also where its text is a warning elsewhere.
                alone = (pattern.alone and not line.origin.is_advice) or is_raised
                match = _add(self.causes, cause.name, pattern.confidence, alone, evidence(line))
                if pattern.final:
                    match.final.add(line.log.name)
                if pattern.final or pattern.ends:
                    self.ends[line.order[0]] = line.order
                elif pattern.is_specific and not line.origin.is_advice:
                    spoken = [each for each in speakers() if each.speaks(line.whole, text)]
                    match.is_own |= is_raised or any(each.is_own for each in spoken)
                    if any(each.ends for each in spoken):
                        self.ends[line.order[0]] = line.order
        if TRACEBACK in text:
            end, frames = _end_of(line)
            if _IGNORED in "".join(line.before()[-1:]):
                self._ignored.add(end.order)
            else:
                self._exception(end, frames)
                if end.order != line.order and end.rank is None:
                    self.ends[line.order[0]] = end.order
            return
        if is_raised:
            # A log may begin in a traceback: of one without its begin the last frame is known.
            frame = next(filter(None, map(_FRAME.search, line.before(3)[::-1])), None)
            place = ":".join(frame.group("path", "line")) if frame else ""
            self._exception(evidence(line), (place, place))
        if line.order not in self._known:
            self._error(line, is_raised)

    def _error(self, line: Line, is_raised: bool) -> None:
        """Take an error that no pattern has; not alone, where its level is general or lower."""
        whole = line.whole
        spoken = (each.name for each in speakers() if each.speaks(whole, line.text))
        names = [*spoken] or [PROGRAM] * is_raised
        if not names or (names[0] == PROGRAM and line.origin.is_advice):
            return
        alone = is_raised or (names[0] != PROGRAM and not line.origin.is_advice)
        if cause := meant(names, line.text):
            self._known.update([line.order] * is_raised)
            found = self.causes if cause in self._of_others else self.meant
            _add(found, cause, "low", alone, evidence(line))
        if alone and not is_raised and cause not in self._of_others:
            _add(self.errors, names[0], "low", alone, evidence(line))

    def _exception(self, end: Evidence, frames: tuple[str, str]) -> None:
        if (cause := raised(end.text, frames[1])) in self._of_others:
            self._known.add(end.order)
            _add(self.causes, cause, "low", True, end)
        match = _EXCEPTION.match(end.text) or _ENDING.match(end.text)
        name = match["name"] if match and TRACEBACK not in end.text else TRACEBACK
        before = self.exceptions.get(name)
        if before is None and len(self.exceptions) >= _MOST_EXCEPTIONS:
            return
        if before is None or end.order not in {each.order for each in before.lines}:
            before = _add(self.exceptions, name, "medium", True, end)
        before.frames.setdefault(end.order, frames)

    def add(self, match: Match) -> None:
        """Add a cause that no pattern shows."""
        before = self.causes.setdefault(match.name, match)
        if before is not match:
            before.alone = before.alone or match.alone
            before.lines += match.lines
            before.last |= match.last
            before.final |= match.final

    def unknown(self) -> Iterator[Match]:
        """Yield the exceptions with those of their lines that no cause has."""
        for match in self.exceptions.values():
            if lines := [each for each in match.lines if each.order not in self._known]:
                one = replace(match, lines=lines)
                yield replace(one, confidence="low" if one.raised[1] else "medium")


def _add(
    found: dict[str, Match], name: str, confidence: Confidence, alone: bool, line: Evidence
) -> Match:
    match = found.setdefault(name, Match(name, "low", alone))
    # A text that is no failure alone says less.
    rank = RANKED.index(confidence) + (not alone)
    match.confidence = RANKED[min(rank, RANKED.index(match.confidence))]
    match.alone = match.alone or alone
    stream = line.stream if len(match.last) < _MOST_EXCEPTIONS else ""
    match.last[line.log, stream] = line.number
    ranks = {each.rank for each in match.lines}
    if len(match.lines) < _MOST or (line.rank not in ranks and len(ranks) < 10 * _MOST):
        match.lines.append(line)
    return match


def matches(pattern: Pattern, line: Line) -> bool:
    """Whether a line that has the text of a pattern is one of its lines."""
    return (
        (not pattern.line or bool(re.search(pattern.line, line.text)))
        and all(re.search(each, line.near, re.MULTILINE) for each in pattern.near)
        and not any(re.search(each, line.near, re.MULTILINE) for each in pattern.without)
        and (not pattern.stage or pattern.stage == line.stage)
    )


def _end_of(line: Line) -> tuple[Evidence, tuple[str, str]]:
    """Return the line that a traceback ends with, and the place of the program and the last one.

    Lines of other processes, which stand between those of this one, are passed over. A traceback
    without an end is its first line; where an exception of a worker follows, that is the end.
    """
    place, last, caught = "", "", False
    for number, text in enumerate(line.after(_TRACEBACK), line.number + 1):
        text, origin = split(text, line.origin.rank)
        if origin.stream != line.origin.stream:
            continue
        if caught and _ORIGINAL in text:
            place, last, caught = "", "", False
        elif frame := _FRAME.match(text):
            last = f"{frame['path']}:{frame['line']}"
            if not place or not _LIBRARY.search(frame["path"]) or _LIBRARY.search(place):
                place = last
        elif _CAUGHT.match(text) and not caught:
            caught = True
        elif _EXCEPTION.match(text) or (place and _ENDING.match(text)):
            return kept(line.log, (line.order[0], number), text, origin), (place, last)
    return evidence(line), (place, last)

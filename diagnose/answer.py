"""What the logs of a job say: candidates for the root cause, best first, or nothing known."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from gpu_node.diagnose.cause import Cause, Confidence, causes, comparisons, emitters, starts
from gpu_node.diagnose.compared import EXPORTS, Compared
from gpu_node.diagnose.ending import Ending
from gpu_node.diagnose.flight import Flight, read_flight
from gpu_node.diagnose.limited import Exceeded, Meter
from gpu_node.diagnose.match import RANKED, TRACEBACK, Evidence, Match, Matcher
from gpu_node.diagnose.origin import in_year
from gpu_node.diagnose.proof import graded
from gpu_node.diagnose.scan import Scanner, Size
from gpu_node.diagnose.sources import Log
from gpu_node.drift.ranges import ranges
from gpu_node.inventories.plurals import counted

# The cause of a program that ends with an exception that no other cause has.
EXCEPTION = "exception"
CANDIDATES, EVIDENCE, LOOKS = 3, 10, 3
_PLACES = {"first": 0, "": 1, "last": 2}
# Exceptions that say what another process did, or that the program itself did not raise.
_OF_OTHERS = ("ChildFailedError", "CalledProcessError", "KeyboardInterrupt", "SystemExit")
_OF_LIBRARIES: tuple[str, ...] = ("RuntimeError", "OSError", "TimeoutError", "ConnectionError")
_OF_LIBRARIES += ("DistBackendError", "DistNetworkError", "DistStoreError", "AcceleratorError")


@dataclass(frozen=True)
class Candidate:
    """A cause, how sure it is, and at most EVIDENCE lines that show it, the first first.

    `recovered`: each process that has such a line made progress after the last of them.
    """

    cause: Cause
    confidence: Confidence
    evidence: tuple[Evidence, ...]
    says: str
    recovered: bool = False


Verdict = Literal[
    "cause",
    "not decidable",
    "nothing known",
    "no failure recognised",
    "ends in the middle",
    "empty",
    "went on",
    "healthy",
]
# The verdicts that answer the question, whose exit code is 0.
ANSWERS: tuple[Verdict, ...] = ("cause", "went on", "healthy")


@dataclass(frozen=True)
class Answer:
    """What the logs say: `failing` has the first line of each kind of failure.

    `went_on`: each process goes on after the last of its own. `size.lost` is what could not be
    read. `works`: a log shows that the job works, `ends` that it ends. `stops_at`: the last step of
    each log that ends in the middle. `last`: the last line of each process. `look`: what to look at
    where all lines are consequences.
    """

    candidates: tuple[Candidate, ...]
    failing: tuple[Evidence, ...]
    went_on: bool
    flights: tuple[Flight, ...]
    size: Size
    logs: int
    works: bool
    ends: bool
    is_empty: bool
    stops_at: Mapping[str, str]
    last: tuple[Evidence, ...]
    look: tuple[str, ...]

    @property
    def verdict(self) -> Verdict:
        """Unknown is never healthy: neither what was not read, nor a rank that waits."""
        if self.is_empty:
            return "empty"
        if self.candidates and not self.went_on:
            return "cause"
        if self.look and not (self.went_on if self.failing else self.works):
            return "not decidable"
        unread = self.size.lost or any(each.waiting or each.error for each in self.flights)
        if unread or (self.failing and not self.went_on):
            return "nothing known"
        if self.failing:
            return "went on"
        if self.stops_at:
            return "ends in the middle"
        return "healthy" if self.works else "no failure recognised"


def diagnose(
    logs: Iterable[Log],
    lost: Iterable[str] = (),
    known: Mapping[str, Cause] | None = None,
    meter: Meter | None = None,
) -> Answer:
    """Read logs, and return what they say; `lost` is what cannot be read of their folders.

    A log that takes more than a started meter allows is lost from there on.
    """
    logs, meter = [*logs], meter or Meter()
    known = causes() if known is None else known
    matcher = Matcher(known.values())
    compared = Compared()
    census = {text for each in starts() for text in (each.has, each.all) if text}
    scanner = Scanner(matcher.texts() | census | {EXPORTS, *(each.has for each in comparisons())})
    size, read, empty = Size(lost=[*lost]), 0, 0
    endings: dict[str, Ending] = {}
    flights: list[Flight] = []
    for index, log in enumerate(logs):
        if meter.is_spent:
            more = counted(len(logs) - index, "log")
            size.lost.append(f"{more} from {log.name}: no processor time is left for them")
            break
        read += 1
        one = Size()
        try:
            with meter.one():
                if log.pickled:
                    flights.append(read_flight(log, meter))
                    continue
                for line in scanner.lines(log, index, one, meter):
                    matcher.take(line)
                    compared.take(line)
        except Exceeded as error:
            one.lost.append(f"{log.name}: {error}")
        endings[log.name] = Ending(log, index, one)
        size.lines += one.lines
        is_empty = not one.tail.strip(b"\0\r\n\t ")
        empty += is_empty and not one.lost
        size.lost += one.lost or [f"{log.name}: the file is empty"] * is_empty
    lost_losses = [match for ending in endings.values() for match in ending.lost_losses()]
    for match in (each for each in (*compared.matches(), *lost_losses) if each.name in known):
        matcher.add(match)
    works = any(ending.works for ending in endings.values())
    for match in () if works else compared.absent():
        matcher.meant[match.name] = match
        matcher.causes.get(match.name, match).more = match.more
    ends = any(ending.ends for ending in endings.values())
    stops_at = {name: step for name, ending in endings.items() if (step := ending.stops_at)}
    judged = _judged(matcher, known, endings, works and not stops_at)
    last = tuple(line for ending in endings.values() for line in ending.last_lines())
    look = _look(matcher, known, last)
    is_empty = 0 < read == empty
    return Answer(*judged, tuple(flights), size, read, works, ends, is_empty, stops_at, last, look)


def _judged(
    matcher: Matcher, known: Mapping[str, Cause], endings: Mapping[str, Ending], ends_well: bool
) -> tuple[tuple[Candidate, ...], tuple[Evidence, ...], bool]:
    """Return the candidates, the first line of each failure, and whether all went on."""
    found, unknown = matcher.causes, [*matcher.unknown()]
    meant = {name: of for name, of in matcher.meant.items() if name in known.keys() - found}
    words = [match for ending in endings.values() for match in ending.last_words()]
    failed = [*found.values(), *unknown, *words, *matcher.errors.values(), *meant.values()]
    if not ends_well and not any(each.alone for each in failed):
        # What is no failure alone is taken for one, unless the job goes on.
        for match in (*found.values(), *meant.values()):
            at = match.last.items()
            goes_on = all(endings[log].goes_on(stream, number) for (log, stream), number in at)
            match.alone = not goes_on and known[match.name].level != "consequence"
    times = sorted((line.when for match in failed for line in match.lines if line.when), key=len)
    for match in failed:
        match.lines = [
            replace(e, when=in_year(e.when, times[-1])) if e.when else e for e in match.lines
        ]
    last: dict[tuple[str, str], int] = {}
    # What a launcher prints at its end belongs to the failure, also where it is none alone.
    ending = [each for each in found.values() if known[each.name].level == "consequence"]
    for match in (*ending, *(each for each in failed if each.alone)):
        for process, number in match.last.items():
            last[process] = max(number, last.get(process, 0))
    final = {log for match in failed for log in match.final}
    went_on = all(
        log not in final and endings[log].goes_on(stream, number)
        for (log, stream), number in last.items()
    )
    kinds = sorted((each.lines[0] for each in failed if each.alone), key=_place)
    if not kinds:
        return (), (), False
    candidates = [*_of_causes(found, known, endings), *_of_exceptions(unknown, known, endings)]
    if all(each.cause.level == "symptom" for each in candidates):
        # Of a program whose errors are not known by their form a line may be no more than advice.
        others = {name: of for name, of in meant.items() if of.alone or not candidates}
        candidates += _of_causes(others, known, endings)
    named = sorted(candidates, key=lambda each: _order(each, candidates))[:CANDIDATES]
    wrong = ending + [each for each in failed if each.alone and not _has_recovered(each, endings)]
    causes = [(each.confidence, each.cause) for each in named]
    surest = zip(named, graded(causes, matcher, wrong, known), strict=True)
    return tuple(replace(each, confidence=of) for each, of in surest), tuple(kinds), went_on


def _look(
    matcher: Matcher, known: Mapping[str, Cause], last: Iterable[Evidence]
) -> tuple[str, ...]:
    """Return what to look at, in order, where no line but those of consequences is a failure."""
    found = sorted(matcher.causes.values(), key=lambda each: _place(each.lines[0]))
    others = any(known[each.name].level != "consequence" for each in found)
    if not found or others or matcher.errors or any(matcher.unknown()):
        return ()
    lines = [*last, *(line for match in found for line in match.lines)]
    ranks = {line.rank for line in lines if line.rank is not None}
    missing = sorted({*range(max(ranks, default=0))} - ranks)
    first = [f"the log of rank {ranges(map(str, missing))}, which is not here"] if missing else []
    return tuple((first + [text for each in found for text in known[each.name].look])[:LOOKS])


def _has_recovered(match: Match, endings: Mapping[str, Ending]) -> bool:
    """Whether all go on after lines that are a failure in themselves."""
    last = (endings[log].recovers(stream, at) for (log, stream), at in match.last.items())
    return match.alone and not match.final and all(last)


def _place(line: Evidence) -> tuple[bool, str, tuple[int, int]]:
    return not line.when, line.when, line.order


def _candidate(cause: Cause, match: Match, says: str, endings: Mapping[str, Ending]) -> Candidate:
    lines = tuple(sorted({*match.lines}, key=_place)[:EVIDENCE])
    return Candidate(cause, match.confidence, lines, says, _has_recovered(match, endings))


def _of_causes(
    found: Mapping[str, Match], known: Mapping[str, Cause], endings: Mapping[str, Ending]
) -> Iterator[Candidate]:
    for match in found.values():
        cause = known[match.name]
        if cause.level != "consequence":
            yield _candidate(cause, match, cause.says + match.more, endings)


def _of_exceptions(
    unknown: Iterable[Match], known: Mapping[str, Cause], endings: Mapping[str, Ending]
) -> Iterator[Candidate]:
    """Yield the exception of the user's program that came first, if there is one.

    A line without a traceback may be no more than a text that looks like one.
    """

    def first(of: Match) -> tuple[object, ...]:
        return _has_recovered(of, endings), not of.raised[0], _place(min(of.lines, key=_place))

    for match in sorted(unknown, key=first):
        name = match.name.rpartition(".")[2]
        place, means = match.raised
        is_of_library = name in _OF_LIBRARIES and (not place or "-packages/" in place)
        if means not in known and (name in (TRACEBACK, *_OF_OTHERS) or is_of_library):
            continue
        cause = known.get(means, known[EXCEPTION])
        where = f", raised at {place}" if place else ""
        ranks = sorted({each.rank for each in match.lines if each.rank is not None})
        who = f"rank {ranks[0]}" if len(ranks) == 1 else "the program"
        ends = f"{who} ends with {match.name}{where}"
        says = ends if cause.name == EXCEPTION else f"{cause.says}: {ends}"
        yield _candidate(cause, match, says, endings)
        return


def _order(candidate: Candidate, candidates: Iterable[Candidate]) -> tuple[object, ...]:
    """What no process recovered from; causes before symptoms; what none explains; the surer.

    An exception of the user's program stands between causes of medium and of low confidence. Of
    two alike, that comes first whose emitter fails by itself and does not report another.
    """
    explained = any(candidate.cause.name in each.cause.explains for each in candidates)
    return (
        candidate.recovered,
        candidate.cause.level == "symptom",
        explained,
        1.5 if candidate.cause.name == EXCEPTION else RANKED.index(candidate.confidence),
        min(map(_place_of, candidate.evidence)),
        _place(candidate.evidence[0]),
    )


def _place_of(line: Evidence) -> int:
    """Return where the emitters of a line stand: a component first, those that report it last."""
    places = (_PLACES[each.place] for each in emitters() if each.speaks(line.text, line.text))
    return min(places, default=_PLACES[""])

"""What the logs of a job say: candidates for the root cause, best first, or nothing known."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from gpu_node.diagnose.cause import Cause, Confidence, causes
from gpu_node.diagnose.compared import COMPARISONS, EXPORTS, Compared
from gpu_node.diagnose.ending import LAST_WORDS, Ending
from gpu_node.diagnose.flight import Flight, read_flight
from gpu_node.diagnose.limited import Exceeded, Meter
from gpu_node.diagnose.match import RANKED, TRACEBACK, Evidence, Match, Matcher
from gpu_node.diagnose.scan import Scanner, Size
from gpu_node.diagnose.sources import Log
from gpu_node.inventories.plurals import counted

# The cause of a program that ends with an exception that no other cause has.
EXCEPTION = "exception"
CANDIDATES, EVIDENCE = 3, 10
# A log with nothing else has nothing to say.
_BLANK = b"\0\r\n\t "
# Exceptions that say what another process did, or that the program itself did not raise.
_OF_OTHERS = ("ChildFailedError", "CalledProcessError", "KeyboardInterrupt", "SystemExit")
_OF_LIBRARIES = ("RuntimeError", "OSError", "TimeoutError", "ConnectionError")


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


Verdict = Literal["cause", "nothing known", "went on", "healthy"]


@dataclass(frozen=True)
class Answer:
    """What the logs say: `failing` has the first line of each kind of failure.

    `went_on`: each process goes on after the last of its own. `size.lost` is what could not be
    read.
    """

    candidates: tuple[Candidate, ...]
    failing: tuple[Evidence, ...]
    went_on: bool
    flights: tuple[Flight, ...]
    size: Size
    logs: int

    @property
    def verdict(self) -> Verdict:
        """Unknown is never healthy: neither what was not read, nor a rank that waits."""
        if self.failing and not self.went_on:
            return "cause" if self.candidates else "nothing known"
        if self.size.lost or any(each.waiting or each.error for each in self.flights):
            return "nothing known"
        return "went on" if self.failing else "healthy"


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
    scanner = Scanner(matcher.texts() | {EXPORTS, *(each.has for each in COMPARISONS)})
    size, read = Size(lost=[*lost]), 0
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
        size.lines, size.bytes = size.lines + one.lines, size.bytes + one.bytes
        is_empty = not one.tail.strip(_BLANK)
        size.lost += one.lost or [f"{log.name}: nothing is in it"] * is_empty
    lost_losses = [match for ending in endings.values() for match in ending.lost_losses()]
    for match in (each for each in (*compared.matches(), *lost_losses) if each.name in known):
        matcher.add(match)
    words = [match for ending in endings.values() for match in ending.last_words()]
    return _judged(matcher, known, endings, size, read, tuple(flights), words)


def _judged(
    matcher: Matcher,
    known: Mapping[str, Cause],
    endings: Mapping[str, Ending],
    size: Size,
    read: int,
    flights: tuple[Flight, ...],
    words: Collection[Match],
) -> Answer:
    found, unknown = matcher.causes, [*matcher.unknown(), *words]
    failed = [*found.values(), *unknown]
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
        return Answer((), (), False, flights, size, read)
    recovered = {id(match) for match in failed if _has_recovered(match, endings)}
    candidates = [
        *_of_causes(found, known, recovered),
        *_of_exceptions(unknown, known, recovered),
    ]
    ordered = sorted(candidates, key=lambda each: _order(each, candidates))
    return Answer(tuple(ordered[:CANDIDATES]), tuple(kinds), went_on, flights, size, read)


def _has_recovered(match: Match, endings: Mapping[str, Ending]) -> bool:
    """Whether all go on after lines that are a failure in themselves."""
    return (
        match.alone
        and not match.final
        and all(
            endings[log].recovers(stream, number) for (log, stream), number in match.last.items()
        )
    )


def _place(line: Evidence) -> tuple[bool, str, tuple[int, int]]:
    return not line.when, line.when, line.order


def _of_causes(
    found: Mapping[str, Match], known: Mapping[str, Cause], recovered: Collection[int]
) -> Iterator[Candidate]:
    for match in found.values():
        cause = known[match.name]
        if cause.level != "consequence":
            shown = tuple(sorted(match.lines, key=_place)[:EVIDENCE])
            yield Candidate(cause, match.confidence, shown, cause.says, id(match) in recovered)


def _of_exceptions(
    unknown: Iterable[Match], known: Mapping[str, Cause], recovered: Collection[int]
) -> Iterator[Candidate]:
    """Yield the exception of the user's program that came first, if there is one.

    A line without a traceback may be no more than a text that looks like one.
    """

    def first(match: Match) -> tuple[object, ...]:
        return id(match) in recovered, not match.frame, _place(min(match.lines, key=_place))

    for match in sorted(unknown, key=first):
        name = match.name.rpartition(".")[2]
        in_users_file = bool(match.frame) and "-packages/" not in match.frame
        is_of_library = name in _OF_LIBRARIES and not in_users_file
        if name in (TRACEBACK, LAST_WORDS, *_OF_OTHERS) or is_of_library:
            continue
        cause = known[EXCEPTION]
        lines = tuple(sorted(match.lines, key=_place)[:EVIDENCE])
        where = f", raised at {match.frame}" if match.frame else ""
        ranks = sorted({each.rank for each in lines if each.rank is not None})
        who = f"rank {ranks[0]} ends" if len(ranks) == 1 else "the program ends"
        says = f"{who} with {match.name}{where}"
        confidence: Confidence = "high" if in_users_file else "medium"
        yield Candidate(cause, confidence, lines, says, id(match) in recovered)
        return


def _order(
    candidate: Candidate,
    candidates: Iterable[Candidate],
) -> tuple[object, ...]:
    """What no process recovered from; causes before symptoms; what none explains; the surer.

    An exception of the user's program stands between causes of medium and of low confidence.
    """
    explained = any(candidate.cause.name in each.cause.explains for each in candidates)
    return (
        candidate.recovered,
        candidate.cause.level == "symptom",
        explained,
        1.5 if candidate.cause.name == EXCEPTION else RANKED.index(candidate.confidence),
        _place(candidate.evidence[0]),
    )

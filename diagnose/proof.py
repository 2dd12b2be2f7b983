"""How sure an answer is: without lines that prove its cause its confidence is never high."""

from collections.abc import Iterable, Iterator, Mapping

from gpu_node.diagnose.cause import Cause, Confidence
from gpu_node.diagnose.match import RANKED, Evidence, Match

_MINUTE = len("2026-01-01 12:00")


def graded(
    named: Iterable[tuple[Confidence, Cause]],
    found: Mapping[str, Match],
    failed: Iterable[Match],
    known: Mapping[str, Cause],
    ends: Mapping[int, tuple[int, int]],
) -> Iterator[Confidence]:
    """Yield how sure each answer is by its text and its proof; none is surer than one before it."""
    rank = 0
    for confidence, cause in named:
        match = found.get(cause.name)
        is_proved = match is not None and _proves(match, cause, failed, known, ends)
        rank = max(rank, RANKED.index(confidence), not is_proved)
        yield RANKED[rank]


def _proves(
    match: Match,
    cause: Cause,
    failed: Iterable[Match],
    known: Mapping[str, Cause],
    ends: Mapping[int, tuple[int, int]],
) -> bool:
    """Whether the error is of who failed, an end follows, and what failed before is explained.

    `ends`: of each log the last line by which a process ended.
    """
    line = match.first
    return (
        match.is_own
        and any(log != line.order[0] or end >= line.order for log, end in ends.items())
        and all(
            _explains(cause, line, each, known.get(each.name))
            for each in failed
            if each.name != match.name and _is_before(each.first, line)
        )
    )


def _is_before(one: Evidence, line: Evidence) -> bool:
    """In the same log by the place, in others by the time, where both have one."""
    if one.log == line.log:
        return one.order < line.order
    return bool(one.when) and one.when < line.when


def _explains(cause: Cause, line: Evidence, before: Match, of: Cause | None) -> bool:
    """Whether an earlier failure follows from a cause, or one without a cause is beside it."""
    if of is not None and of.level == "cause":
        return of.name in cause.explains
    one = before.first
    minutes = {each.when[:_MINUTE] for each in (one, line) if each.when}
    return (one.log, one.stream) == (line.log, line.stream) and len(minutes) < 2

"""How sure an answer is: without lines that prove its cause its confidence is never high."""

from collections.abc import Iterable, Iterator, Mapping

from gpu_node.diagnose.cause import Cause, Confidence
from gpu_node.diagnose.match import RANKED, Evidence, Match, Matcher

_MINUTE = len("2026-01-01 12:00")


def graded(
    named: Iterable[tuple[Confidence, Cause]],
    matcher: Matcher,
    failed: Iterable[Match],
    known: Mapping[str, Cause],
) -> Iterator[Confidence]:
    """Yield how sure each answer is by its text and its proof; none is surer than one before it.

    Proof: the error is of who failed, an end follows, and what failed before is explained.
    """
    rank = 0
    for confidence, cause in named:
        rank = max(rank, RANKED.index(confidence))
        if rank == 0:
            match, line = matcher.causes[cause.name], matcher.causes[cause.name].first
            others = (each for each in failed if each.name != match.name)
            is_proved = (
                match.is_own
                and any(
                    log != line.order[0] or at >= line.order for log, at in matcher.ends.items()
                )
                and all(_explains(cause, line, each, known.get(each.name)) for each in others)
            )
            rank = RANKED.index("high" if is_proved else "medium")
        yield RANKED[rank]


def _explains(cause: Cause, line: Evidence, other: Match, of: Cause | None) -> bool:
    """Whether another failure is later, follows from a cause, or is beside it without a cause.

    In the same log the place says which is later, in others the time, where both have one.
    """
    one = other.first
    is_before = one.order < line.order if one.log == line.log else "" < one.when < line.when
    if is_before and of is not None and of.level == "cause":
        return of.name in cause.explains
    minutes = {each.when[:_MINUTE] for each in (one, line) if each.when}
    is_beside = (one.log, one.stream) == (line.log, line.stream) and len(minutes) < 2
    return is_beside or not is_before

"""Clock: the node's time at both ends of the probe, and this machine's around it."""

import re

from gpu_node.facts.probe.base import AreaFact, State
from gpu_node.facts.probe.protocol import Readings, Section, Unreadable

# busybox may be built without %N: then it prints `%N` itself, or nothing.
_COMMAND = "date +%s.%N"
SECTIONS = (
    Section("clock.begin", _COMMAND, place="first", light=True),
    Section("clock.end", _COMMAND, place="last", light=True),
)
_TIME = re.compile(r"([0-9]{1,11})\.([0-9]{9}|%?N?)")


class ClockState(State):
    """The node's clock when the probe began and ended, in seconds since 1970.

    `step` is their precision in seconds: 1 if `date` has no fractions. `asked` and `answered` are
    this machine's clock before and after the probe; None if it was not recorded (a single fact of
    pyinfra).
    """

    begin: float | None
    end: float | None
    step: float | None
    asked: float | None
    answered: float | None


def parse_time(text: str) -> tuple[float, float]:
    """Return the seconds since 1970 and the step of the clock from a line of `date`."""
    match = _TIME.fullmatch(text.strip())
    if match is None:
        raise Unreadable(f"not a time: {text.strip()[:40]!r}")
    fraction = match[2]
    return (float(text), 1e-6) if fraction.isdecimal() else (float(match[1]), 1.0)


def parse(readings: Readings) -> ClockState:
    """Return the clock; what cannot be read is added to `readings.unread`."""
    begin = readings.take("clock.begin", parse_time)
    end = readings.take("clock.end", parse_time)
    steps = [each[1] for each in (begin, end) if each is not None]
    return ClockState(
        begin=begin[0] if begin else None,
        end=end[0] if end else None,
        step=max(steps) if steps else None,
        asked=readings.times.asked if readings.times else None,
        answered=readings.times.answered if readings.times else None,
    )


class Clock(AreaFact):
    """Returns `ClockState` as a dict, without `asked` and `answered`, which are None."""

    sections = SECTIONS
    state = ClockState
    parse = staticmethod(parse)

"""The guard of `make test`: a report may not become much slower than pyinfra with one fact.

Other work on the machine delays both. Their CPU seconds hardly change with it, so their ratio has
the narrow limit. Seconds do, so their ratio has a wide one: what is above it in each round is a
wait, such as a second round of questions. The best round counts, and one below all limits is the
last.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bench.contenders import ours
from bench.contenders.all import CONTENDERS, DRIFT, PYINFRA
from bench.contenders.setup import Setup
from bench.measure.rounds import interleaved
from bench.measure.run import Taken
from bench.nodes.serve import answering, prepared

_ROUNDS = 5
# No further round begins after so many seconds, of which each size has half.
_LAST_SECONDS = 50


@dataclass(frozen=True)
class Ratios:
    """Drift to pyinfra with one fact: of seconds, and of CPU seconds of the controller."""

    wall: float
    cpu: float


# The most, by nodes. With two processors and a load of 8 to 17, ten attempts had ratios of seconds
# between 1.1 and 2.2, and ratios of CPU seconds between 1.6 and 2.1.
LIMITS = {2: Ratios(wall=3.0, cpu=2.6), 10: Ratios(wall=3.0, cpu=2.6)}


def guard(shown: Callable[[str], object]) -> list[str]:
    """Measure, and return what is above its limit. Raises Failed, NotReal, NoServer, NoSshd."""
    began = time.monotonic()
    lines = []
    with answering(max(LIMITS)) as login:
        for number, nodes in enumerate(LIMITS, 1):
            setup = prepared(nodes, login)
            ours.check(setup)
            found = _measured(setup, began + _LAST_SECONDS * number / len(LIMITS))
            shown(
                f"{nodes} nodes: gpu-node drift takes {_in_words(found)} of pyinfra with one fact"
            )
            lines += above(nodes, found)
    return lines


def _in_words(found: Ratios) -> str:
    return f"{found.wall:.2f} times the seconds and {found.cpu:.2f} times the CPU seconds"


def above(nodes: int, found: Ratios) -> list[str]:
    """Return a line for each ratio that is above its limit."""
    limit = LIMITS[nodes]
    pairs = (("seconds", found.wall, limit.wall), ("CPU seconds", found.cpu, limit.cpu))
    return [
        f"{nodes} nodes: gpu-node drift takes {ratio:.2f} times the {what} of pyinfra with one "
        f"fact; allowed: {most}; next: python -m bench serve {nodes}, and profile the report"
        for what, ratio, most in pairs
        if ratio > most
    ]


def _measured(setup: Setup, last: float) -> Ratios:
    """Measure round by round, until the best is below its limits or the time is over."""
    commands = {name: CONTENDERS[name].start(setup) for name in (DRIFT, PYINFRA)}
    runs: dict[str, list[Taken]] = {name: [] for name in commands}
    while True:
        for name, taken in interleaved(
            commands, dict.fromkeys(commands, 1), setup.folder / "run"
        ).items():
            runs[name] += taken
        found = best(runs[DRIFT], runs[PYINFRA])
        is_last = len(runs[DRIFT]) == _ROUNDS or time.monotonic() > last
        if is_last or not above(len(setup.hosts), found):
            return found


def best(drift: Sequence[Taken], pyinfra: Sequence[Taken]) -> Ratios:
    """Return the best ratio of seconds in a round, and that of the fewest CPU seconds of each."""
    wall = min(one.wall / other.wall for one, other in zip(drift, pyinfra, strict=True))
    cpu = min(each.cpu for each in drift) / min(each.cpu for each in pyinfra)
    return Ratios(wall, cpu)

"""The guard of `make test`: a report may not become much slower than pyinfra with one fact.

Other work on the machine delays both. Their CPU seconds hardly change with it, so their ratio has
the narrow limit. Seconds do, so their ratio has a wide one, and the best of some rounds counts:
what is above it is a wait, such as a second round of questions. A limit that is passed is tried
once more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bench.contenders import ours
from bench.contenders.all import CONTENDERS, DRIFT, PYINFRA
from bench.contenders.setup import Setup
from bench.measure.rounds import interleaved
from bench.measure.run import Taken
from bench.nodes.cluster import Login
from bench.nodes.serve import answering, prepared

_ROUNDS = 3


@dataclass(frozen=True)
class Ratios:
    """Drift to pyinfra with one fact: of seconds, and of CPU seconds of the controller."""

    wall: float
    cpu: float


# The most, by nodes. With two processors and a load of 4 to 8, a dozen attempts had ratios of
# seconds between 1.1 and 2.3, and ratios of CPU seconds between 2.0 and 2.5.
LIMITS = {2: Ratios(wall=3.2, cpu=3.0), 10: Ratios(wall=3.0, cpu=3.0)}


def guard(shown: Callable[[str], object]) -> list[str]:
    """Measure, and return what is above its limit twice. Raises Failed, NotReal, NoServer."""
    with answering(max(LIMITS)) as login:
        return [line for nodes in LIMITS for line in _tried(nodes, login, shown)]


def _tried(nodes: int, login: Login, shown: Callable[[str], object]) -> list[str]:
    setup = prepared(nodes, login)
    ours.check(setup)
    lines: list[str] = []
    for _ in range(2):
        found = _measured(setup)
        shown(f"{nodes} nodes: drift takes {_words(found)} of pyinfra with one fact")
        lines = above(nodes, found, LIMITS[nodes])
        if not lines:
            break
    return lines


def _words(found: Ratios) -> str:
    return f"{found.wall:.2f} times the seconds and {found.cpu:.2f} times the CPU seconds"


def above(nodes: int, found: Ratios, limit: Ratios) -> list[str]:
    """Return a line for each ratio that is above its limit."""
    pairs = (("seconds", found.wall, limit.wall), ("CPU seconds", found.cpu, limit.cpu))
    return [
        f"{nodes} nodes: gpu-node drift takes {ratio:.2f} times the {what} of pyinfra with one "
        f"fact; allowed: {most}; next: python -m bench serve {nodes}, and profile the report"
        for what, ratio, most in pairs
        if ratio > most
    ]


def _measured(setup: Setup) -> Ratios:
    commands = {name: CONTENDERS[name].start(setup) for name in (DRIFT, PYINFRA)}
    series = interleaved(commands, _ROUNDS, setup.folder / "run")
    return best(series[DRIFT], series[PYINFRA])


def best(drift: Sequence[Taken], pyinfra: Sequence[Taken]) -> Ratios:
    """Return the best ratio of seconds in a round, and that of the fewest CPU seconds of each."""
    wall = min(one.wall / other.wall for one, other in zip(drift, pyinfra, strict=True))
    cpu = min(each.cpu for each in drift) / min(each.cpu for each in pyinfra)
    return Ratios(wall, cpu)

"""Measures contenders in turn, round by round: what the machine does besides hits all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median

from bench.measure.run import Command, Taken, measured

# The runs of each contender, in the order of the rounds.
Series = Mapping[str, Sequence[Taken]]


def interleaved(
    commands: Mapping[str, Command],
    rounds: Mapping[str, int],
    scratch: Path,
    shown: Callable[[str, Taken], object] = lambda name, taken: None,
) -> Series:
    """Run each command once in each of its rounds; each round begins with another one.

    Raises Failed.
    """
    found: dict[str, list[Taken]] = {name: [] for name in commands}
    for each in range(max(rounds.values())):
        names = [name for name in commands if each < rounds[name]]
        first = each % len(names)
        for name in [*names[first:], *names[:first]]:
            found[name].append(measured(commands[name], scratch))
            shown(name, found[name][-1])
    return found


def wall(runs: Sequence[Taken]) -> float:
    """Return the median of the seconds of runs."""
    return median(run.wall for run in runs)


def cpu(runs: Sequence[Taken]) -> float:
    """Return the median of the CPU seconds of runs."""
    return median(run.cpu for run in runs)


def megabytes(runs: Sequence[Taken]) -> float:
    """Return the median of the memory of runs."""
    return median(run.megabytes for run in runs)


def ratio(runs: Sequence[Taken], base: Sequence[Taken]) -> float:
    """Return the median of the ratios of wall seconds, of runs of the same round.

    The one that runs less often has the first rounds.
    """
    return median(one.wall / other.wall for one, other in zip(runs, base, strict=False))

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
    rounds: int,
    scratch: Path,
    shown: Callable[[str, Taken], object] = lambda name, taken: None,
) -> Series:
    """Run each command once in each round; each round begins with another one. Raises Failed."""
    names = list(commands)
    found: dict[str, list[Taken]] = {name: [] for name in names}
    for each in range(rounds):
        first = each % max(1, len(names))
        for name in [*names[first:], *names[:first]]:
            found[name].append(measured(commands[name], scratch))
            shown(name, found[name][-1])
    return found


def wall(runs: Sequence[Taken]) -> float:
    """Return the median of the seconds of runs."""
    return median(each.wall for each in runs)


def cpu(runs: Sequence[Taken]) -> float:
    """Return the median of the CPU seconds of runs."""
    return median(each.cpu for each in runs)


def megabytes(runs: Sequence[Taken]) -> float:
    """Return the median of the memory of runs."""
    return median(each.megabytes for each in runs)


def ratio(runs: Sequence[Taken], base: Sequence[Taken]) -> float:
    """Return the median of the ratios of wall seconds, of runs of the same round."""
    return median(one.wall / other.wall for one, other in zip(runs, base, strict=True))

"""The guard of `make test`: which ratios it lets pass, and what it prints of others."""

from __future__ import annotations

import pytest

from bench.guard import LIMITS, Ratios, above, best
from bench.measure.run import Taken

LIMIT = LIMITS[2]


def taken(wall: float, cpu: float) -> Taken:
    """A run."""
    return Taken(wall=wall, cpu=cpu, megabytes=50, load=1)


def test_the_best_round_counts_for_seconds() -> None:
    """In each round both are delayed alike; the CPU seconds are those of the best run of each."""
    found = best([taken(4, 1.2), taken(6, 1)], [taken(2, 0.5), taken(2, 0.4)])
    assert found == Ratios(wall=2, cpu=2.5)


@pytest.mark.parametrize(
    ("found", "number"),
    [
        (LIMIT, 0),
        (Ratios(LIMIT.wall + 0.1, LIMIT.cpu), 1),
        (Ratios(LIMIT.wall, LIMIT.cpu + 0.1), 1),
        (Ratios(LIMIT.wall + 1, LIMIT.cpu + 1), 2),
    ],
)
def test_each_ratio_has_its_limit(found: Ratios, number: int) -> None:
    """Each line has the ratio and the most."""
    lines = above(2, found)
    assert len(lines) == number
    assert all("allowed: " in line and line.startswith("2 nodes: ") for line in lines)

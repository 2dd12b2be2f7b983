"""The rows of launchers.yml: each is complete, and has its cases."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gpu_node.drift.job.launchers import table

TESTS = Path(__file__).parents[1]
LINES = re.findall(
    r"line: [\"']?(.*)", "".join(path.read_text() for path in TESTS.glob("cases/job.*.yml"))
)


@pytest.mark.parametrize("kind", table().launchers)
def test_a_row_is_complete(kind: str) -> None:
    """What it names is one of its options, and its ranks and hosts can be judged."""
    row = table().launchers[kind]
    assert {*row.roles.values(), *row.numbers} <= {*row.flags, *row.values, *row.pairs}
    assert {"each", "ranks"} & row.roles.keys()
    assert not row.logs_in or (row.hosts and {"hosts", "hostfile"} & row.roles.keys())


@pytest.mark.parametrize("kind", table().launchers)
def test_each_launcher_has_cases(kind: str) -> None:
    """A line that is read, and lines that are judged."""
    row = table().launchers[kind]
    starts = (*row.names, *(" ".join(each) for each in row.commands.items()))
    assert f"kind: {kind}" in (TESTS / "job" / "launch.yml").read_text()
    assert sum(any(f"{each} " in line for each in starts) for line in LINES) > 1

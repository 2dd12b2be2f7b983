"""The rows of launchers.yml: what is refused when they are read, and that each has its cases."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from gpu_node.drift.job.launchers import Launcher, table

TESTS = Path(__file__).parents[1]
ROW: dict[str, Any] = {"names": "run", "values": "np H x", "roles": {"ranks": "np"}}
LINES = re.findall(
    r"line: [\"']?(.*)", "".join(path.read_text() for path in TESTS.glob("cases/job.*.yml"))
)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"roles": {"ranks": "np", "host": "H"}}, "Input should be 'nodes', 'each', 'ranks'"),
        ({"roles": {"ranks": "n"}}, "roles: n: not in flags, values or pairs"),
        ({"roles": {"hosts": "H"}}, "roles: needs each or ranks"),
        ({"numbers": {"n": {"most": 4}}}, "numbers: n: not in flags, values or pairs"),
        ({"logs_in": True}, "logs_in: needs hosts"),
        ({"hosts": "lines"}, "Input should be '', 'slots', 'mpi' or 'names'"),
        ({"defaults": {"ports": 1}}, "Input should be 'nodes', 'each', 'ranks'"),
    ],
)
def test_a_row_that_is_wrong(change: dict[str, Any], words: str) -> None:
    """Its word is named; as it is without the change the row is read."""
    assert Launcher.model_validate(ROW).roles == {"ranks": "np"}
    with pytest.raises(ValidationError, match=re.escape(words)):
        Launcher.model_validate({**ROW, **change})


@pytest.mark.parametrize("kind", table().launchers)
def test_each_launcher_has_cases(kind: str) -> None:
    """A line that is read, and lines that are judged."""
    row = table().launchers[kind]
    starts = (*row.names, *(" ".join(each) for each in row.commands.items()))
    assert f"kind: {kind}" in (TESTS / "job" / "launch.yml").read_text()
    assert sum(any(f"{each} " in line for each in starts) for line in LINES) > 1

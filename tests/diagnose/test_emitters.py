"""The emitters: each line of theirs is heard, and none speaks where a job ran well."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpu_node.diagnose.cause import emitters
from gpu_node.diagnose.origin import split
from tests.case_files import load
from tests.diagnose.test_recorded import logs, text

HERE = Path(__file__).parent
LINES: dict[str, list[str]] = load((HERE / "emitters.yml").read_text())
# Jobs of which a process failed, and that went on without it.
RESTARTED = "restart-after-"


@pytest.mark.parametrize("name", LINES)
def test_an_emitter_is_heard(name: str) -> None:
    """By each of its lines."""
    rows = [each for each in emitters() if each.name == name]
    assert [
        line for line in LINES[name] if not any(row.speaks(line, split(line)[0]) for row in rows)
    ] == []


def test_each_row_has_a_line() -> None:
    """That it alone, or another row of the emitter, hears."""
    silent = [
        f"{row.name}: {row.has}"
        for row in emitters()
        if not any(row.speaks(line, split(line)[0]) for line in LINES.get(row.name, ()))
    ]
    assert silent == []


def test_no_emitter_speaks_in_a_log_of_a_job_that_ran_well() -> None:
    """Of the recorded ones, and of threads."""
    recorded = [
        text(path)
        for name, files in logs("healthy").items()
        for path in files
        if not name.startswith(RESTARTED)
    ]
    found: list[dict[str, Any]] = load((HERE / "threads/fresh_healthy_shown.yml").read_text())
    lines = {
        line for log in [*recorded, *(each["log"] for each in found)] for line in log.splitlines()
    }
    spoken = [
        f"{emitter.name}: {line}"
        for line, (bare, *_) in ((line, split(line)) for line in lines)
        for emitter in emitters()
        if emitter.speaks(line, bare)
    ]
    assert spoken == []

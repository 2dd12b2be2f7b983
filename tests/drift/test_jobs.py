"""A report of Slurm jobs: its head, the mark of each node, and what a job's user cannot read."""

from __future__ import annotations

import json as stdlib_json
from dataclasses import replace
from typing import Any

import jsonschema
import pytest

from docs.schema import schema
from gpu_node.drift.report.seen import Seen
from tests.case_files import merged
from tests.drift import states
from tests.drift.reports import concise, drawn, report, written
from tests.drift.test_without_root import ALICE, CLOSED

HEAD = "Slurm jobs read these facts"
CHANGE: Any = merged(ALICE, CLOSED)
NODE = Seen(states.wanted(), states.state(CHANGE))
JOBS = {"a100-01": replace(NODE, slurm_job=4711), "v100-01": replace(NODE, slurm_job=4712)}


@pytest.mark.parametrize("width", [60, 100, 300])
def test_the_head_of_the_report(width: int) -> None:
    """It is the first line, also of the whole report; a login's report has none."""
    assert concise(JOBS, width).startswith(HEAD)
    assert drawn(JOBS, width).startswith(HEAD)
    assert max(map(len, concise(JOBS, width).splitlines())) <= width
    assert HEAD not in concise({"a100-01": NODE}, width)
    assert "limits, environment and /dev/shm are a job's (all)" in concise(JOBS, 300)


def test_the_mark_in_json() -> None:
    """The number of the job that read a node; null where a login did, or nothing was read."""
    gone = Seen(states.wanted(), error="Slurm has it as down", reached=False)
    found = stdlib_json.loads(written("json", report({**JOBS, "x": NODE, "y": gone})))
    jsonschema.validate(found, schema())
    jobs = {name: host["slurm_job"] for name, host in found["hosts"].items()}
    assert jobs == {"a100-01": 4711, "v100-01": 4712, "x": None, "y": None}


def test_what_only_root_can_read() -> None:
    """It is unreadable; the next step is a login, not a key of the inventory for jobs."""
    text = " ".join(concise(JOBS, 300).split())
    assert "needs-root 2 facts are readable by root only: driver.next, limits.files" in text
    assert "as root: report without --via slurm, as root or with `ssh: {sudo: true}`" in text
    found = report(JOBS)
    assert found.hosts["a100-01"].status == "unreadable"
    assert found.exit_code() == 1

"""`make demo`, as a newcomer types it: two broken servers are reported, repaired and proved."""

from __future__ import annotations

import subprocess

import pytest

from tests.commands import REPOSITORY, environment

pytestmark = pytest.mark.lab_slow


def test_the_demo() -> None:
    """All that it says stands in order, and the nodes are healthy at the end."""
    # Not remade where pyproject.toml is newer: the tests run in this environment.
    words = ["make", "-s", "--old-file=.venv/.ready", "demo"]
    done = subprocess.run(
        words,
        cwd=REPOSITORY,
        env=environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found, _, rest = done.stdout.partition("== pyinfra inventories/lab.py deploy/gpu_node.py ==")
    _, now, proved = rest.partition("== And now ==")
    assert "2 nodes, 2 with drift" in found
    assert now and proved.splitlines()[-2:] == [
        "2 nodes, 2 ok: no problems",
        "A job can start on 2 of 2 nodes",
    ]

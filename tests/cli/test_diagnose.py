"""`gpu-node diagnose --inventory`: what the nodes have now beside the cause that a log shows."""

from __future__ import annotations

import json
from pathlib import Path

from tests.commands import run

LOG = (
    "NCCL WARN Error: failed to extend /dev/shm/nccl-a to 9637892 bytes: No space left on device\n"
)
SITE = """cluster: site
defaults: {shm: {size: 8G}}
hosts:
  a100-01: {address: 127.0.0.9, ssh: {port: 9}}
"""


def test_a_node_that_does_not_answer_changes_no_exit_code(tmp_path: Path) -> None:
    """It is named, and no rule has an answer there."""
    (tmp_path / "train.log").write_text(LOG)
    (tmp_path / "site.yml").write_text(SITE)
    words = ("diagnose", f"{tmp_path}/train.log", "--inventory", f"{tmp_path}/site.yml")
    done = run("gpu-node", *words)
    assert done.code == 0, done.err
    assert "cause.shm-too-small" in done.out
    assert "no answer from a100-01" in done.out
    assert "shm.too-small: not judged on any node" in done.out
    read = json.loads(run("gpu-node", *words, "--format", "json").out)
    assert read["verdict"] == "cause"
    assert [*read["no_answer"]] == ["a100-01"]
    assert {"rule": "shm.too-small", "nodes": []} in read["candidates"][0]["rules"]


def test_this_machine(tmp_path: Path) -> None:
    """Each rule of the cause is judged on it, and named."""
    (tmp_path / "train.log").write_text(LOG)
    done = run("gpu-node", "diagnose", f"{tmp_path}/train.log", "--inventory", "@local")
    assert done.code == 0, done.err
    assert "shm.stale-segments: " in done.out
    assert "@local" in done.out

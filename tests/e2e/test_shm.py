"""An orphaned trainer is named, and ends with its segment only if the inventory allows it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_node.lab import nodes, roster
from tests.e2e.conftest import WriteInventory, others_off
from tests.e2e.on_lab import assert_at_rest, converge, drift, dry, on

pytestmark = pytest.mark.lab

NODE = "v100-02"
# The shell that launched it ends at once: the trainer goes to pid 1.
ORPHAN = """
echo segment >/dev/shm/nccl-orphan; touch -d '2025-06-03' /dev/shm/nccl-orphan
setsid sh -c 'TORCHELASTIC_RUN_ID=none LOCAL_RANK=0 sleep 1234 </dev/shm/nccl-orphan &' \
  >/dev/null 2>&1
"""
# Trainers like it whose launchers are there: in a screen, and behind nohup. The launchers have what
# the trainers have: the variables, and the segment, which dash keeps open meanwhile.
LAUNCHED = """
echo segment >/dev/shm/nccl-launched
export TERM=xterm LOCAL_RANK=0 TORCHELASTIC_RUN_ID=a
screen -dmS job sh -c 'sleep 1235 </dev/shm/nccl-launched; true'
nohup sh -c 'sleep 1235 </dev/shm/nccl-launched; true' >/dev/null 2>&1 &
sleep 1
"""


@pytest.fixture
def path(inventory: WriteInventory) -> str:
    """An inventory that manages only the shared memory of one converged node."""
    nodes.reset([NODE])
    key = roster.CLIENT_KEY.with_suffix(".pub").read_text().strip()
    on(NODE, f"mkdir -p /root/.ssh && echo '{key}' >/root/.ssh/authorized_keys")
    path = inventory({})
    _write(path, size="64M")
    assert converge(path).code == 0
    return path


def _write(path: str, **shm: Any) -> None:
    file = Path(path).with_suffix(".yml")
    cluster = yaml.safe_load(file.read_text())
    cluster["defaults"] = {"ssh": cluster["defaults"]["ssh"], "shm": shm}
    cluster["defaults"]["checks"] = others_off(cluster)
    cluster["groups"] = {"v100": None}
    cluster["hosts"] = {NODE: {"address": roster.NODES[NODE].address, "group": "v100"}}
    file.write_text(yaml.safe_dump(cluster))


def _findings(path: str) -> dict[str, Any]:
    found = drift(path).json["hosts"][NODE]["findings"]
    assert len({each["rule"] for each in found}) == len(found), found
    return {each["rule"]: each for each in found}


def test_an_orphan_ends_with_permission_alone(path: str) -> None:
    """It is named and not ended; with kill_orphans it ends, and its segment is removed."""
    on(NODE, LAUNCHED)
    assert len(on(NODE, "pgrep -x -f 'sleep 1235'").split()) == 2
    on(NODE, ORPHAN)
    pid = on(NODE, "pgrep -x -f 'sleep 1234'").strip()
    found = _findings(path)
    assert list(found) == ["shm.orphaned-trainer"], json.dumps(found)
    assert found["shm.orphaned-trainer"]["subject"] == f"pid {pid}"
    assert found["shm.orphaned-trainer"]["found"].startswith("sleep 1234 of root, ")
    left = converge(path)
    assert (left.code, left.executed) == (0, {})
    assert f"shm.orphaned-trainer: pid {pid}" in left.err
    assert on(NODE, "pgrep -x -f 'sleep 1234'").strip() == pid

    _write(path, size="64M", kill_orphans=True)
    assert [each for each in dry(path) if pid in each]
    done = converge(path)
    assert done.code == 0, done.err
    assert on(NODE, "pgrep -x -f 'sleep 1234' || echo gone").strip() == "gone"
    assert len(on(NODE, "pgrep -x -f 'sleep 1235'").split()) == 2
    assert on(NODE, "ls /dev/shm").split() == ["nccl-launched"]
    assert_at_rest(path, NODE)

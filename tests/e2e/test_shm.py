"""Stale segments in /dev/shm are removed, used ones stay, an orphaned trainer ends if allowed."""

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
STALE = """
cd /dev/shm
for number in $(seq 300); do echo segment >nccl-$number; done
echo segment >nccl-live; echo segment >nccl-mapped; echo segment >psm_others; echo data >somebodys
touch -d '2025-06-03 03:12:00' *
"""
# A job of today: one segment it holds open, one it has mapped and closed.
LIVE = """
sleep 600 </dev/shm/nccl-live >/dev/null 2>&1 &
python3 -c 'import mmap, time
with open("/dev/shm/nccl-mapped", "r+b") as file:
    kept = mmap.mmap(file.fileno(), 0)
time.sleep(600)' >/dev/null 2>&1 &
sleep 1
"""
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


def test_stale_segments_go_and_live_ones_stay(path: str) -> None:
    """300 unused files, one that is open, one that is mapped, and those of other programs."""
    on(NODE, STALE)
    on(NODE, LIVE)
    found = _findings(path)
    assert list(found) == ["shm.stale-segments"], json.dumps(found)
    assert found["shm.stale-segments"]["found"].startswith(
        "300 files, 2.3K, oldest 2025-06-03, of root: nccl-1, nccl-10, nccl-100, ..."
    )
    name = "Shared memory | Remove unused segments"
    assert dry(path)[name] == [NODE]
    done = converge(path)
    assert (done.code, done.executed[name]) == (0, [NODE]), done.err
    assert on(NODE, "ls /dev/shm").split() == [
        "nccl-live",
        "nccl-mapped",
        "psm_others",
        "somebodys",
    ]
    assert_at_rest(path, NODE)


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


@pytest.mark.lab_slow
def test_a_file_behind_a_link(path: str) -> None:
    """What it leads to is replaced and named, by the operation and at the end; the link stays."""
    on(NODE, "mkdir -p /srv/etc && mv /etc/fstab /srv/etc/fstab && ln -s /srv/etc/fstab /etc/fstab")
    on(NODE, "sed -i '/shm/d' /srv/etc/fstab")
    done = converge(path)
    assert done.code == 0, done.err
    assert on(NODE, "readlink /etc/fstab; grep -c shm /srv/etc/fstab") == "/srv/etc/fstab\n1\n"
    line = "/etc/fstab leads to /srv/etc/fstab: that file was replaced, and the link stays"
    operation, _, end = done.err.partition("--> Disconnecting from hosts")
    assert f"[{NODE}] gpu-node: {line}" in operation and f"[{NODE}] {line}" in end
    on(NODE, "rm /etc/fstab && mv /srv/etc/fstab /etc/fstab")


def test_what_only_root_may_see(path: str) -> None:
    """The SSH user is not root: no segment is called stale; with sudo it is."""
    on(NODE, STALE)
    on(NODE, "sleep 600 >/dev/null 2>&1 &")  # another user's process, which may have any file open
    key = roster.CLIENT_KEY.with_suffix(".pub").read_text().strip()
    on(NODE, "useradd -m -s /bin/bash train && install -d -m 700 -o train /home/train/.ssh")
    on(NODE, f"echo '{key}' >/home/train/.ssh/authorized_keys; chown -R train: /home/train")
    on(NODE, "echo 'train ALL=(ALL) NOPASSWD: ALL' >/etc/sudoers.d/train")
    file = Path(path).with_suffix(".yml")
    cluster = yaml.safe_load(file.read_text())
    cluster["defaults"]["ssh"]["user"] = "train"
    file.write_text(yaml.safe_dump(cluster))
    found = _findings(path)["shm.stale-segments"]
    assert (found["severity"], found["fixable"]) == ("info", False)
    assert converge(path).executed == {}
    cluster["defaults"]["ssh"]["sudo"] = True
    file.write_text(yaml.safe_dump(cluster))
    done = converge(path)
    assert done.code == 0, done.err
    assert on(NODE, "ls /dev/shm").split() == ["psm_others", "somebodys"]
    report = drift(path)
    assert (report.code, report.json["hosts"][NODE]["findings"]) == (0, [])

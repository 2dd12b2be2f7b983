"""`gpu-node deploy --batch`: a batch that is not proved ends the run, and changes no other."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from gpu_node.lab import nodes, roster
from tests.e2e.conftest import WriteInventory, let_in, others_off
from tests.e2e.on_lab import changed, manifest, on, run

pytestmark = pytest.mark.lab_slow

NODES = ("a100-01", "v100-01", "v100-02")
FIRST, *OTHERS = NODES
# It ends well and mounts nothing: only the proof finds out.
IDLE_MOUNT = "printf '#!/bin/sh\\n' >/usr/local/sbin/mount; chmod 755 /usr/local/sbin/mount"
WORK = "rm -f /usr/local/sbin/mount"


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Three nodes as found, which let this machine in."""
    nodes.reset(NODES)
    let_in("v100-02")


@pytest.fixture
def path(three: None, inventory: WriteInventory) -> str:
    """An inventory that manages only their shared memory."""
    path = inventory({})
    file = Path(path).with_suffix(".yml")
    cluster = yaml.safe_load(file.read_text())
    cluster["defaults"] = {"ssh": cluster["defaults"]["ssh"], "shm": {"size": "128M"}}
    cluster["defaults"]["checks"] = others_off(cluster)
    cluster["hosts"]["v100-02"] = {
        "address": roster.NODES["v100-02"].address,
        "group": "v100",
    }
    for group in cluster["groups"]:
        cluster["groups"][group] = {}
    for name in cluster["hosts"]:
        kept = ("address", "group")
        cluster["hosts"][name] = {key: cluster["hosts"][name][key] for key in kept}
    file.write_text(yaml.safe_dump(cluster))
    return path


def sizes() -> dict[str, str]:
    """How large /dev/shm is."""
    return {node: on(node, "df -m /dev/shm | awk 'END { print $2 }'").strip() for node in NODES}


def test_the_first_batch_is_not_proved(path: str) -> None:
    """Exit 1; the other nodes are read, and no file of theirs is touched."""
    on(FIRST, IDLE_MOUNT)
    before = {node: manifest(node) for node in OTHERS}
    done = run("gpu-node", "deploy", path, "-y", "--areas", "shm", "--batch", "1")
    assert done.code == 1, done.err
    assert "Batch 1 is not proved; not changed: v100-[01-02]." in done.err
    assert all(changed(before[node], manifest(node)) == set() for node in OTHERS)
    assert sizes() == dict.fromkeys(NODES, "64")


def test_batch_after_batch(path: str) -> None:
    """A node of each GPU model first; all are repaired in the end, and the report is clean."""
    on(FIRST, WORK)
    done = run("gpu-node", "deploy", path, "-y", "--areas", "shm", "--batch", "1")
    assert done.code == 0, done.err
    assert [line for line in done.err.splitlines() if line.startswith("== batch")] == [
        f"== batch {number} of 3: {node}" for number, node in enumerate(NODES, 1)
    ]
    assert sizes() == dict.fromkeys(NODES, "128")
    lines = done.out.splitlines()
    assert "shm alone: 3 nodes, 3 ok: no problems in what was judged; no GPU answers on" in lines
    runs = [line.split()[3] for line in lines if "; to take it back: gpu-node restore" in line]
    # The file of the first one is of the run before, which could not mount it.
    assert runs == [f"{node};" for node in OTHERS]

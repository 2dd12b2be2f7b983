"""The forecast of a dry run: it says what the stages of an onboarding then do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpu_node.inventories.cluster import Cluster
from gpu_node.inventories.schema import load
from gpu_node.onboarding.forecast import foreseen
from tests.drift import states

FILE = """\
cluster: c
defaults:
  ssh: {user: root, mesh: true}
  nccl: {environments: [/opt/dis], copy_from: v100-01, packages: true}
groups: {v100: {}}
hosts:
  a100-01: {address: 192.0.2.10, group: v100}
  v100-01: {address: 192.0.2.11, group: v100}
  v100-02: {address: 192.0.2.12, group: v100}
"""
BARE: dict[str, Any] = {"environments": {"/opt/dis": None}, "absent": ["/opt/dis"]}
BARE_APT = {**BARE, "manager": "apt-get", "packages": []}
MESH = "mesh: on a100-01, v100-01: v100-02 would be written to authorized_keys and known_hosts, "


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "site.yml"


def cluster(file: Path, text: str = FILE) -> Cluster:
    file.write_text(text)
    return load(file)


def foreseen_of(cluster: Cluster, **state: Any) -> tuple[dict[str, str], list[str]]:
    """Return what the rules find of NCCL, each rule with its fix, and the other lines."""
    report, lines = foreseen(states.state(state), cluster, "v100-02")
    found = report.hosts["v100-02"].findings
    assert not {each.area for each in found} & {"ssh", "workspace"}
    return {each.rule: each.fix for each in found if each.area == "nccl"}, lines


def test_what_the_environments_stage_copies(file: Path) -> None:
    """What is installed by its torch's version waits for it."""
    found, (copied, mesh) = foreseen_of(cluster(file), nccl=BARE_APT)
    assert copied == "environments: /opt/dis would be copied from v100-01 to the same path"
    assert found == {
        "nccl.package-missing": "first repair /opt/dis, see nccl.environment-missing: its torch "
        "decides the version"
    }
    assert mesh.startswith(MESH)


def test_no_key_is_let_in_as_another_user(file: Path) -> None:
    """Where root trains, the key of alice is not written."""
    text = FILE.replace("192.0.2.12,", "192.0.2.12, user: alice,")
    _, lines = foreseen_of(cluster(file, text))
    assert lines[-1].endswith(
        "; not to authorized_keys on a100-01 (root), v100-01 (root): the training user of v100-02 "
        "is alice"
    )


def test_what_is_not_copied(file: Path) -> None:
    """No node is named for it, it is the node itself, or there is no rsync."""
    for text in (
        FILE.replace("copy_from: v100-01, ", ""),
        FILE.replace("copy_from: v100-01", "copy_from: v100-02"),
    ):
        found, (mesh,) = foreseen_of(cluster(file, text), nccl=BARE_APT)
        assert "create it" in found["nccl.environment-missing"] and mesh.startswith(MESH)
    without_manager = {**BARE, "manager": "none", "packages": []}
    found, (copied, _) = foreseen_of(cluster(file), nccl=without_manager, workspace={"rsync": ""})
    assert copied == "environments: install rsync on v100-02: it copies /opt/dis from v100-01"
    assert "nccl.package-missing" in found


def test_a_version_that_is_named(file: Path) -> None:
    """It needs no environment to be known."""
    text = FILE.replace("packages: true", "packages: true, version: 2.18.1+cuda12.1")
    found, _ = foreseen_of(cluster(file, text), nccl=BARE_APT)
    assert found["nccl.package-missing"].startswith("install libnccl2, libnccl-dev 2.18.1-1+cuda1")


def test_no_mesh(file: Path) -> None:
    """No mesh is wanted, or there is no other node."""
    without = cluster(file, FILE.replace(", mesh: true", ""))
    assert len(foreseen_of(without, nccl=BARE_APT)[1]) == 1
    others = "".join(line for line in FILE.splitlines(True) if "0-01:" not in line)
    alone = cluster(file, others.replace("copy_from: v100-01, ", ""))
    assert foreseen_of(alone, nccl=BARE_APT)[1] == []

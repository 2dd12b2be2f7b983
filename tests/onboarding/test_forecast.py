"""The forecast of a dry run: it says what the stages of an onboarding then do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpu_node.inventories.schema import Cluster, load
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
MISSING = "nccl.environment-missing: /opt/dis: missing, wanted as on v100-01; "
PACKAGES = "nccl.package-missing: libnccl2, libnccl-dev: not installed, wanted the version that "
MESH = "mesh: on a100-01, v100-01: v100-02 would be written to authorized_keys and known_hosts, "


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "site.yml"


def cluster(file: Path, text: str = FILE) -> Cluster:
    file.write_text(text)
    return load(file)


def foreseen_lines(cluster: Cluster, **state: Any) -> list[str]:
    return foreseen(states.state(state), cluster, "v100-02")


def test_what_the_environments_stage_copies(file: Path) -> None:
    """And what is installed by its torch's version, which is not known before."""
    packages, environment, mesh = foreseen_lines(cluster(file), nccl=BARE_APT)
    assert environment == f"{MISSING}would be repaired: copied from v100-01 to the same path"
    assert packages.startswith(PACKAGES)
    assert packages.endswith("; decided when its environment is there: by its torch")
    assert mesh.startswith(MESH)


def test_what_is_not_copied(file: Path) -> None:
    """No node is named for it, it is the node itself, or there is no rsync."""
    for text in (
        FILE.replace("copy_from: v100-01, ", ""),
        FILE.replace("copy_from: v100-01", "copy_from: v100-02"),
    ):
        packages, environment, _ = foreseen_lines(cluster(file, text), nccl=BARE_APT)
        assert (
            "; needs manual action: " in environment
            and "; needs manual action: name a version" in packages
        )
    without_manager = {**BARE, "manager": "none", "packages": []}
    packages, environment, _ = foreseen_lines(
        cluster(file), nccl=without_manager, workspace={"rsync": ""}
    )
    assert environment == (
        f"{MISSING}needs manual action: install rsync on v100-02: it copies the environment from "
        "v100-01"
    )
    assert (
        "libnccl: no apt, dnf or yum is installed" in packages
        and "; needs manual action: " in packages
    )


def test_a_version_that_is_named(file: Path) -> None:
    """It needs no environment to be known."""
    text = FILE.replace("packages: true", "packages: true, version: 2.18.1+cuda12.1")
    packages, _, _ = foreseen_lines(cluster(file, text), nccl=BARE_APT)
    assert "; would be repaired: install libnccl2, libnccl-dev 2.18.1-1+cuda12.1" in packages


def test_no_mesh(file: Path) -> None:
    """No mesh is wanted, or there is no other node."""
    assert foreseen_lines(cluster(file, FILE.replace(", mesh: true", "")), nccl=BARE_APT)[2:] == []
    others = "".join(line for line in FILE.splitlines(True) if "0-01:" not in line)
    alone = cluster(file, others.replace("copy_from: v100-01, ", ""))
    assert foreseen_lines(alone, nccl=BARE_APT)[2:] == []

"""What the contract tests share: a cluster of one node, whose port is closed."""

from __future__ import annotations

from pathlib import Path

import pytest
from paramiko import ECDSAKey

INVENTORY = """from gpu_node.inventories.pyinfra_groups import groups_of

globals().update(groups_of(__file__))
"""
CLUSTER = """cluster: c
defaults:
  ssh: {user: root, key: key, known_hosts: known_hosts, port: 1}
  shm: {size: 8G}
groups:
  a100: {}
hosts:
  a100-01: {address: 127.0.0.1, group: a100}
"""


@pytest.fixture(autouse=True)
def sockets_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that a test calls in this process leaves its sockets and threads alone."""
    monkeypatch.setattr("gpu_node.cli.loading.cooperate", lambda: None)


@pytest.fixture(scope="session")
def key() -> ECDSAKey:
    """A client key that opens nothing."""
    return ECDSAKey.generate()


def fill(folder: Path, key: ECDSAKey) -> Path:
    """Write the inventory site.py into a folder, and all that it asks for."""
    key.write_private_key_file(str(folder / "key"))
    (folder / "known_hosts").touch()
    (folder / "site.py").write_text(INVENTORY)
    (folder / "site.yml").write_text(CLUSTER)
    return folder


@pytest.fixture
def folder(tmp_path: Path, key: ECDSAKey) -> Path:
    """A folder with that inventory."""
    return fill(tmp_path, key)

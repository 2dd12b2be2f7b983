"""An SSH user who is neither root nor has sudo: what is reported, and that nothing is changed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from gpu_node.lab import nodes, roster
from tests.e2e.conftest import WriteInventory
from tests.e2e.on_lab import MANAGED, converge, drift, manifest, on, run

pytestmark = pytest.mark.lab

KEY = "mkdir -p {home}/.ssh && printf '%s\\n' '{key}' >{home}/.ssh/authorized_keys"


@pytest.fixture
def as_alice(inventory: WriteInventory) -> Iterator[str]:
    """An inventory that logs in to the two rpm nodes as found as a user without sudo."""
    nodes.reset(MANAGED)
    key = roster.CLIENT_KEY.with_suffix(".pub").read_text().strip()
    for node in MANAGED:
        on(node, "useradd -m -s /bin/bash alice")
        on(node, KEY.format(home="/home/alice", key=key))
        on(node, "chown -R alice: /home/alice/.ssh; chmod 700 /home/alice/.ssh")
        on(node, "chmod 700 /etc/security/limits.d")
    path = inventory({})
    file = Path(path).with_suffix(".yml")
    cluster = yaml.safe_load(file.read_text())
    cluster["defaults"]["ssh"].update(user="alice")
    file.write_text(yaml.safe_dump(cluster))
    yield path
    nodes.reset(MANAGED)


def test_an_ordinary_user(as_alice: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What only root reads is one line; each line has what alice can do; a deploy is refused."""
    monkeypatch.setenv("COLUMNS", "300")
    report = drift(as_alice)
    assert report.code == 1
    hosts = report.json["hosts"]
    closed = [
        (name, each["subject"])
        for name in MANAGED
        for each in hosts[name]["findings"]
        if each["rule"] == "limits.unreadable"
    ]
    assert closed == [(name, "limits.files") for name in MANAGED]
    shown = run("gpu-node", "drift", as_alice)
    assert shown.code == 1
    words = " ".join(shown.out.split())
    assert "needs-root a fact is readable by root only: limits.files admin 2" in words
    assert "`alice ALL=(ALL) NOPASSWD: ALL`" in words
    assert "without root: Set NCCL_BUFFSIZE=1048576" in words
    assert "a100-01: export NCCL_SOCKET_IFNAME='=bond0' at the top of ~/.bashrc" in words
    assert "repair: " not in shown.out
    before = {node: manifest(node) for node in MANAGED}
    refused = run("gpu-node", "deploy", as_alice, "--yes")
    assert refused.code == 1
    assert "a100-01, v100-01: the deploy needs root, and alice is not root: " in refused.err
    plain = converge(as_alice)
    assert (plain.code, plain.executed) == (1, {})
    assert plain.err.count("the deploy needs root, and alice is not root; nothing was changed") == 2
    assert {node: manifest(node) for node in MANAGED} == before

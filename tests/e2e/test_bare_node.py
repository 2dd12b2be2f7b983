"""A bare server beside two members: its environment first, then all of it, and nobody is asked."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from lab import nodes, roster
from tests.e2e.conftest import WriteInventory
from tests.e2e.running import MANAGED, converge, drift, on, run

pytestmark = pytest.mark.lab

BARE = "v100-02"
DIS = "/root/miniconda3/envs/dis"


@pytest.fixture
def site(inventory: WriteInventory) -> Iterator[str]:
    """The lab's inventory with the bare node in it: it lets our key in, and has no rsync."""
    nodes.reset(roster.NODES)
    key = roster.CLIENT_KEY.with_suffix(".pub").read_text().strip()
    on(BARE, f"mkdir -p /root/.ssh && echo '{key}' >/root/.ssh/authorized_keys")
    on(BARE, "dpkg --purge --force-depends rsync >/dev/null 2>&1; ! command -v rsync")
    # The installer's line is a user's, and a person's to take out.
    on(BARE, "sed -i '/^127.0.1.1/d' /etc/hosts")
    path = inventory({})
    file = Path(path).with_suffix(".yml")
    cluster = yaml.safe_load(file.read_text())
    # Its family has packages of its own.
    debs = {"repository": {"url": f"http://{roster.MIRROR_ADDRESS}/deb/"}}
    cluster["hosts"][BARE] = {"address": "10.168.144.6", "group": "v100", "nccl": debs}
    file.write_text(yaml.safe_dump(cluster))
    yield path
    nodes.reset(roster.NODES)


def test_it_becomes_a_member(site: str) -> None:
    """Driver, rsync, environment, mesh and all else: the environment first, then the whole."""
    for node in MANAGED:
        assert "nccl.environment-missing" not in str(drift(site).json["hosts"][node]["findings"])
    found = {each["rule"]: each for each in drift(site).json["hosts"][BARE]["findings"]}
    for rule in ("driver.not-installed", "nccl.environment-missing", "workspace.rsync-missing"):
        assert found[rule]["fixable"], rule
    by_hand = [rule for rule, each in found.items() if not each["fixable"]]
    assert by_hand == ["nccl.package-missing"]  # of which version shows with the environment
    copied = run("pyinfra", "-y", site, "deploy/environments.py", seconds=300)
    assert copied.code == 0, copied.err
    done = converge(site)
    assert done.code == 0, done.err
    report = drift(site)
    assert report.code == 0, report.out
    assert converge(site).executed == {}
    assert on(BARE, f"{DIS}/bin/python3 -c 'import torch.version'") == ""
    assert len(on(BARE, "nvidia-smi -L").splitlines()) == 2

"""A firewalld that blocks a node's ports, repaired by `gpu-node deploy`: a real one, in namespaces."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deploy import walled
from tests.deploy.walled import FIREWALLD, Site

FIRST, SECOND = NAMES = ("a100-01", "a100-02")
RECORD = "/var/lib/gpu-node/firewall"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        os.geteuid() != 0 or not shutil.which("firewalld"), reason="it runs in a namespace"
    ),
]


@pytest.fixture
def site() -> Iterator[Site]:
    """Two nodes; the second has a firewalld as Debian installs it."""
    with (
        tempfile.TemporaryDirectory(dir="/var/tmp") as folder,
        walled.running(NAMES, Path(folder)) as running,
    ):
        running.nodes.on(SECOND, FIREWALLD)
        yield running


def rules(site: Site, *options: str) -> list[str]:
    command = " ".join(["firewall-cmd", *options, "--zone=public --list-rich-rules"])
    return site.nodes.on(SECOND, command).splitlines()


def test_it_is_repaired_and_taken_back(site: Site) -> None:
    """Named, repaired, proved from the peer, kept at the next start; restore removes our rule."""
    nodes = site.nodes
    users = 'rule family="ipv4" source address="192.0.2.7" accept'
    nodes.on(SECOND, f"firewall-cmd --zone=public --add-rich-rule='{users}'")
    nodes.on(SECOND, f"firewall-cmd --permanent --zone=public --add-rich-rule='{users}'")
    ours = f'rule family="ipv4" source address="{nodes.addresses[FIRST]}" accept'
    report = site.run("drift", "--only", "ports", "--full")
    print(report.stdout, report.stderr)
    assert "ports.blocked" in report.stdout
    done = site.run("deploy", "--areas", "ports", "--yes")
    print(done.stdout, done.stderr)
    assert done.returncode == 0
    assert sorted(rules(site)) == sorted(rules(site, "--permanent")) == sorted([users, ours])
    assert nodes.on(SECOND, f"cat {RECORD}") == f"public {nodes.addresses[FIRST]}\n"

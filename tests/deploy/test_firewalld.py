"""A firewalld that blocks the ports of a node, repaired by `gpu-node deploy`, in namespaces."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deploy import walled
from tests.deploy.walled import Site
from tests.firewalls import FIREWALLD

FIRST, SECOND = NAMES = ("a100-01", "a100-02")
RECORD = "/var/lib/gpu-node/firewall"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        os.geteuid() != 0 or not shutil.which("apt-get"), reason="it runs in a namespace"
    ),
]


@pytest.fixture
def site(request: pytest.FixtureRequest) -> Iterator[Site]:
    """Nodes of which the second has a firewalld as Debian installs it."""
    with (
        tempfile.TemporaryDirectory(dir="/var/tmp") as folder,
        walled.running(getattr(request, "param", NAMES), Path(folder)) as running,
    ):
        running.nodes.on(SECOND, FIREWALLD)
        yield running


def rich(address: str, how: str = "accept") -> str:
    return f'rule family="ipv4" source address="{address}" {how}'


def add(site: Site, rule: str) -> None:
    """Add a user's rule, now and for the next start."""
    for option in ("", "--permanent"):
        site.nodes.on(SECOND, f"firewall-cmd {option} --zone=public --add-rich-rule='{rule}'")


def rules(site: Site) -> list[list[str]]:
    """Return the rules of the zone: those of now, and of the next start."""
    return [
        sorted(site.nodes.on(SECOND, f"firewall-cmd {each} --list-rich-rules").splitlines())
        for each in ("", "--permanent")
    ]


def record(site: Site) -> str:
    return site.nodes.on(SECOND, f"[ ! -e {RECORD} ] || cat {RECORD}")


@pytest.mark.parametrize("site", [(FIRST, SECOND, "a100-03")], indirect=True)
def test_it_is_repaired_and_taken_back(site: Site) -> None:
    """Proved from the peers, there after a start; a removal and a restore take our rules alone."""
    nodes = site.nodes
    first, _, third = (nodes.addresses[name] for name in nodes.holders)
    users = rich("192.0.2.7")
    add(site, users)
    done = site.run("deploy", "FILE", "--areas", "ports", "--yes")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "repaired  a100-02  ports.blocked" in done.stdout
    ours = [rich(first), rich(third)]
    assert rules(site) == [sorted([users, *ours])] * 2
    assert record(site) == f"public {first}\npublic {third}\n"
    nodes.on(SECOND, AGAIN)
    again = site.run("deploy", "FILE", "--areas", "ports", "--yes")
    assert (again.returncode, again.stderr) == (0, "Nothing to repair.\n"), again.stdout
    gone = site.run("remove", "a100-03", "--inventory", "FILE", "--yes")
    assert gone.returncode == 0, gone.stdout + gone.stderr
    assert rules(site) == [sorted([users, rich(first)])] * 2
    assert record(site) == f"public {first}\n"
    assert site.run("restore", "FILE", SECOND, "--yes").returncode == 0
    assert rules(site) == [sorted([users, *ours])] * 2
    run = re.findall(r"--run (\S+)", done.stdout)[0]
    assert site.run("restore", "FILE", SECOND, "--yes", "--run", run).returncode == 0
    assert rules(site) == [[users]] * 2
    assert record(site) == ""
    report = site.run("drift", "FILE", "--only", "ports")
    assert "rejected (no route to host)" in report.stdout


AGAIN = FIREWALLD.replace("dbus-daemon --system --fork\n", "kill $(cat /run/own.pid); sleep 1\n")


def test_another_rule_blocks_first(site: Site) -> None:
    """Nothing is kept, and the deploy says why."""
    users = rich(f"{site.nodes.addresses[FIRST]}/24", "reject")
    add(site, users)
    done = site.run("deploy", "FILE", "--areas", "ports", "--yes")
    assert done.returncode == 1
    assert f"{FIRST} cannot connect in spite of its rules: nothing is kept" in done.stderr
    assert rules(site)[1] == [users]
    assert record(site) == ""


def test_it_ended_after_the_report(site: Site) -> None:
    """Nothing is changed, and the deploy says why."""
    (site.nodes.folder / "systemctl").write_text("#!/bin/sh\nexit 0\n")
    site.nodes.on(SECOND, "kill -9 $(cat /run/own.pid)")
    done = site.run("deploy", "FILE", "--areas", "ports", "--yes")
    assert done.returncode == 1
    assert "firewalld: it does not run (not running); nothing was changed: start it" in done.stderr
    assert record(site) == ""

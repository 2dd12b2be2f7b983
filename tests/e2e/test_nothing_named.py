"""Two names, their addresses and how to log in: what is reported, and that nothing is changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_node.drift.engine.registry import RULES
from gpu_node.lab import nodes, roster
from tests.e2e.conftest import CONVERGED, converge_unless_kept
from tests.e2e.on_lab import INVENTORY, MANAGED, Run, changed, converge, drift, manifest

pytestmark = [pytest.mark.lab, pytest.mark.lab_slow]


def write(into: Path) -> str:
    """Write an inventory of the two servers that names nothing about them; return its path."""
    ssh = {"user": "root", "key": str(roster.CLIENT_KEY), "known_hosts": str(roster.KNOWN_HOSTS)}
    hosts = {name: {"address": roster.NODES[name].address} for name in MANAGED}
    (into / "few.yml").write_text(
        yaml.safe_dump({"cluster": "few", "defaults": {"ssh": ssh}, "hosts": hosts})
    )
    lab = roster.REPOSITORY / "inventories" / "lab.py"
    (into / "few.py").write_text(lab.read_text())
    return str(into / "few.py")


def rules(report: Run) -> dict[str, set[str]]:
    """Return the rules of a report's findings, each with its nodes."""
    found: dict[str, set[str]] = {}
    for node, host in report.json["hosts"].items():
        for each in host["findings"]:
            found.setdefault(each["rule"], set()).add(node)
    return found


# What the whole inventory's report of the broken lab has: judged always, or the key that it needs.
TABLE = {
    **dict.fromkeys(
        (
            *("driver.headers-missing", "driver.module-not-built", "driver.next-boot"),
            *("driver.not-loaded", "nccl.duplicate-packages", "nccl.duplicate-wheels"),
            *("nccl.loaded-mismatch", "nccl.package-mismatch", "nccl.wheel-damaged"),
            *("network.ifname-wrong", "shm.stale-segments", "toolchain.package-differs"),
            *("limits.memlock", "limits.nofile", "shm.too-small"),
        ),
        "always",
    ),
    "driver.persistence": "driver.persistence",
    "env.not-set": "env",
    "nccl.package-missing": "nccl.packages",
    "network.ifname-missing": "network.interface",
    "shm.not-persistent": "shm.size",
    **dict.fromkeys(
        (
            *("ssh.key-missing", "ssh.name-unresolved", "ssh.no-login"),
            *("ssh.not-authorised", "ssh.unknown-host-key"),
        ),
        "ssh.mesh",
    ),
    "toolchain.cmake-old": "toolchain.cmake",
}
# Without a key less is enough, and the broken lab has that.
ENOUGH = {"limits.nofile"}
# What only the small one has: that logins are not asked for, and a name that ssh.name-unresolved
# stands for where they are.
COMPARED = {"ssh.logins-untried", "host.name"}


@pytest.fixture(scope="module")
def broken() -> None:
    """The two servers as they were found."""
    nodes.reset(MANAGED)


@pytest.fixture(scope="module")
def reports(broken: None, tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Run]:
    """The report of the broken lab by the whole inventory, and by one that names nothing."""
    return drift(INVENTORY), drift(write(tmp_path_factory.mktemp("few")))


def test_each_rule_that_needs_no_wanted_value_is_there(reports: tuple[Run, Run]) -> None:
    """All of them, on the same nodes; the others say which key they need."""
    whole, few = map(rules, reports)
    words = {rule: RULES[rule].key if RULES[rule].needs else "always" for rule in whole}
    assert words == TABLE
    always = {rule: on for rule, on in whole.items() if TABLE[rule] == "always"}
    always = {rule: on for rule, on in always.items() if rule not in ENOUGH}
    assert {rule: on for rule, on in always.items() if not on <= few.get(rule, set())} == {}
    assert few.keys() - whole.keys() == COMPARED
    assert few.keys() - COMPARED == always.keys()


def test_nothing_is_fixable_and_each_repair_names_its_key(reports: tuple[Run, Run]) -> None:
    """What the deploy could repair says what to set for that."""
    found = [each for host in reports[1].json["hosts"].values() for each in host["findings"]]
    assert not [each for each in found if each["fixable"]]
    for each in found:
        rule = RULES[each["rule"]]
        if "gpu-node deploy repairs it" in each["fix"] and not rule.needs:
            assert rule.key.partition(".")[0] in each["fix"], each
    assert reports[1].code == 2


def test_a_deploy_changes_nothing(broken: None, tmp_path: Path) -> None:
    """It ends with 1 because of the errors, and no file of a node is another one."""
    before = {node: manifest(node) for node in MANAGED}
    done = converge(write(tmp_path))
    assert done.code == 1, done.err
    assert {name for name in done.executed if not name.startswith("Stop: ")} == set()
    for node in MANAGED:
        assert changed(before[node], manifest(node)) == set()


def test_a_healthy_pair_has_no_false_finding(tmp_path: Path) -> None:
    """The exact list of a converged pair: nothing but that logins are not asked for."""
    if not converge_unless_kept():
        nodes.put_back(MANAGED, CONVERGED)
    report = drift(write(tmp_path))
    found: list[tuple[str, Any, Any]] = [
        (node, each["rule"], each["subject"])
        for node, host in report.json["hosts"].items()
        for each in host["findings"]
    ]
    assert found == HEALTHY
    assert report.code == 0


HEALTHY: list[tuple[str, Any, Any]] = [("a100-01", "ssh.logins-untried", "logins")]

"""A run and the report after it judge alike: what nodes differ in, too."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from pyinfra.api import Config, Host, Inventory, State
from pyinfra.api.state import StateStage

from gpu_node.deploy.engine import proof
from gpu_node.deploy.engine.run import AskAll, node_of, run_of
from gpu_node.drift.engine.finding import Finding, Root
from gpu_node.drift.report.model import Report
from gpu_node.drift.report.seen import Seen
from gpu_node.inventories.wanted import NodeWanted
from tests.drift import states
from tests.drift.reports import report

DIS = "/opt/dis"
NAMES = ("a100-01", "a100-02")
DATA: dict[str, Any] = states.BASE["wanted"] | {"nccl_environments": [DIS]}
KERNEL = {"name": "3.10.0-1160.el7.x86_64", "headers": True, "image": True}
MODULE = {
    "file": "/lib/modules/3.10.0-1160.el7.x86_64/extra/nvidia.ko.xz",
    "version": "550.54.15",
    "license": "NVIDIA",
    "signer": "",
}
NEWER_DRIVER = {
    "loaded": {"nvidia": "550.54.15"},
    "library": "550.54.15",
    "cuda": {"path": "/usr/lib64/libcuda.so.550.54.15", "version": "550.54.15"},
    "kernels": {"installed": [{**KERNEL, "module": MODULE}]},
    "dkms": {"sources": [{"name": "nvidia", "version": "550.54.15"}]},
}
NEWER = {"torch": {"version": "2.3.0+cu121", "nccl": "2.20.5"}, "loaded": {"version": 22005}}
# A change of the second node, and what its inventory entry does not name.
CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "nothing": ({}, {}),
    "an error that no deploy repairs": (
        {"driver": NEWER_DRIVER},
        {},
    ),
    "an error that the deploy repairs": ({"shm": {"usage": {"size": 67108864}}}, {}),
    "more than wanted": ({"shm": {"usage": {"size": 17179869184}}}, {}),
    "drivers that differ": (
        {"driver": NEWER_DRIVER},
        {"driver_version": None},
    ),
    "no driver where none is named": (
        {"driver": {"loaded": {"nvidia": ""}, "library": ""}},
        {"driver_version": None},
    ),
    "torch": ({"nccl": {"environments": {DIS: NEWER}}}, {}),
    "the NCCL of one torch": (
        {"nccl": {"environments": {DIS: {"loaded": {"version": 22005}}}}},
        {"nccl_version": "2.20.5+cuda12.1"},
    ),
    "shared memory": ({"shm": {"usage": {"size": 4294967296}}}, {"shm_size": None}),
    "limits": (
        {"limits": {"session": {"nofile": {"soft": 1024}}}},
        {"limits_nofile": None},
    ),
    "packages": ({"nccl": {"environments": {DIS: {"packages": {"six": "1.16.0"}}}}}, {}),
    "what is for information": ({"driver": {"waiting": ["/etc/systemd/system/x.conf"]}}, {}),
}


class Run:
    """A run over two nodes, of which the second is changed; both were asked again."""

    def __init__(self, name: str, **data: str) -> None:
        change, inventory = CASES[name]
        given: dict[str, Any] = {"a100-01": {}, "a100-02": inventory}
        self.data = {name: DATA | given[name] | data for name in NAMES}
        healthy: dict[str, Any] = {"nccl": {"environments": {DIS: {}}}}
        self.found = {
            "a100-01": states.state(healthy),
            "a100-02": states.state({**healthy, **change}),
        }
        hosts = [(name, {"ssh_hostname": name, **self.data[name]}) for name in NAMES]
        self.state = State(Inventory((hosts, {})), Config())
        self.state.set_stage(StateStage.Prepare)
        for host in self.state.inventory:
            self.state.activate_host(host)
        self.answer()

    def answer(self) -> None:
        """Let the nodes that are there answer the one probe of the run."""
        run_of(self.state).baseline = AskAll()
        run_of(self.state).baseline.answers(self.state, lambda host: self.found[host.name])

    @property
    def hosts(self) -> dict[str, Host]:
        return {host.name: host for host in self.state.inventory}

    def judged(self) -> dict[str, bool]:
        """Judge each node as a run does at its end; whether it is proved."""
        for name, host in self.hosts.items():
            node_of(host).proved_by = self.found[name]
        return {name: proof._judge(self.state, host, ()) for name, host in self.hosts.items()}

    def report(self) -> Report:
        """The next report, without the keys that only a run has."""
        wanted = {name: NodeWanted.from_data(data) for name, data in self.data.items()}
        return report({name: Seen(wanted[name], self.found[name]) for name in NAMES})


def _left(report: Report, node: str, *severities: str) -> list[str]:
    """Return the rule and subject of a node's findings."""
    findings = report.hosts[node].findings
    return [f"{each.rule}: {each.subject}" for each in findings if each.severity in severities]


@pytest.mark.parametrize("name", CASES)
def test_what_is_proved_has_no_error_in_the_report(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Nor a finding that the deploy repairs; each finding is in a line of its node."""
    caplog.set_level(logging.WARNING)
    run = Run(name)
    proved, after = run.judged(), run.report()
    for node in NAMES:
        fixable = any(each.fixable for each in after.hosts[node].findings)
        assert proved[node] == (not fixable and not _left(after, node, "error"))
        printed = [each.getMessage() for each in caplog.records]
        for left in _left(after, node, "error", "warning"):
            subject = left.split(": ", 1)[1]
            assert any(
                words.startswith(f"[{node}] ") and f"{subject}: " in words for words in printed
            ), printed
    if all(proved.values()):
        is_left = any(_left(after, node, "warning") for node in NAMES)
        assert after.exit_code() == (2 if is_left else 0)


@pytest.mark.parametrize(
    ("name", "rule", "severity"),
    [
        ("drivers that differ", "driver.differs: driver.version", "error"),
        ("torch", "nccl.differs: nccl.torch", "error"),
        ("the NCCL of one torch", "nccl.differs: nccl.loaded", "error"),
        ("shared memory", "shm.differs: shm.size", "warning"),
        ("limits", "limits.differs: limits.nofile", "warning"),
        ("packages", "toolchain.package-differs: 1 other package", "warning"),
    ],
)
def test_an_error_between_nodes_fails_the_run(name: str, rule: str, severity: str) -> None:
    """On both of two nodes; a warning does not."""
    run = Run(name)
    assert run.judged() == dict.fromkeys(NAMES, severity == "warning")
    after = run.report()
    assert all(rule in _left(after, node, severity) for node in NAMES)


@pytest.mark.parametrize(("areas", "proved"), [("shm", True), ("shm,nccl", False)])
def test_a_part_of_the_areas_is_judged_alone(areas: str, proved: bool) -> None:
    """A difference of another area neither fails the run nor is it printed."""
    assert Run("torch", areas=areas).judged() == dict.fromkeys(NAMES, proved)


@pytest.mark.parametrize("change", NAMES)
@pytest.mark.parametrize("name", ["torch", "drivers that differ"])
def test_a_part_of_the_nodes_is_judged_alone(change: str, name: str) -> None:
    """The others are compared with, and not judged."""
    assert Run(name, change=change).judged() == {node: node != change for node in NAMES}


def test_a_node_that_was_not_asked_is_not_compared() -> None:
    """As with `--limit`: of what is not known nothing is concluded."""
    run = Run("torch")
    run.state.active_hosts.discard(run.hosts["a100-02"])
    node_of(run.hosts["a100-01"]).proved_by = run.found["a100-01"]
    assert proof._judge(run.state, run.hosts["a100-01"], ())


def test_what_another_node_is_the_cause_of(caplog: pytest.LogCaptureFixture) -> None:
    """The cause is named, and nothing is advised that cannot help before it is repaired."""
    caplog.set_level(logging.WARNING)
    run = Run("nothing")
    finding = Finding(
        rule="ssh.no-login",
        severity="error",
        subject="a100-02",
        root=Root(node="a100-02", rule="env.user-missing", subject="alice"),
        step="ssh",
        fixable=False,
        found="Permission denied",
        wanted="a login",
        cause="why",
        fix="look at sshd",
    )
    proof._print(run.hosts["a100-01"], [finding])
    (line,) = (each.getMessage() for each in caplog.records)
    assert "Permission denied" in line and "look at sshd" not in line
    assert line.endswith("repair env.user-missing on a100-02 first")

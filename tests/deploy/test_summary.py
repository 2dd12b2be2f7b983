"""A run by pyinfra's command announces and sums up its work in the words of the report."""

from __future__ import annotations

import io
import signal
import sys
from collections.abc import Mapping

import pytest
from pyinfra.api import Host
from rich.console import Console

from gpu_node.deploy.engine.run import node_of
from gpu_node.deploy.engine.summary import announce
from gpu_node.drift.report import table
from gpu_node.drift.report.formats import printed
from gpu_node.drift.report.view import View
from gpu_node.facts.node import NodeState
from gpu_node.inventories import interrupt
from tests.deploy.test_proved import NAMES, Run
from tests.drift import states

LINE = ["pyinfra", "-y", "inventories/my lab.py", "deploy/gpu_node.py", "--limit", "a100"]


@pytest.fixture(autouse=True)
def command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the run, with an option that the next one is to have as well."""
    monkeypatch.setattr(sys, "argv", LINE)


def ended(run: Run, after: Mapping[str, NodeState]) -> None:
    """Let the operations of a run be done, and pyinfra disconnect."""
    hosts: list[Host] = list(run.hosts.values())
    for host in hosts:
        node = node_of(host)
        node.operation_began, node.proved_by = 1.0, after.get(host.name)
    for host in hosts:
        run.state.trigger_callbacks("host_disconnect", host)


def drawn(run: Run, width: int) -> list[str]:
    """The lines of the report about the nodes, without its next steps."""
    shown = table.render(View(run.report()), width, next_step=False)
    return printed(shown, Console(file=io.StringIO(), width=width)).splitlines()


@pytest.mark.parametrize("width", [80, 120, 160])
def test_the_same_lines_as_the_report(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its counts before, all of it after; a command that follows has the options of this run."""
    monkeypatch.setenv("COLUMNS", str(width))
    run = Run("an error that the deploy repairs")
    announce(run.state)
    announce(run.state)
    before = capsys.readouterr()
    assert (before.out, before.err.splitlines()) == (
        "",
        [
            "",
            drawn(run, width)[0],
            "",
            "the deploy repairs (number of findings):",
            "  shm  a100-02  shm.too-small",
            "",
            "more: gpu-node drift 'inventories/my lab.py'",
            "",
        ],
    )
    ended(run, run.found)
    assert capsys.readouterr().err.splitlines() == [
        "",
        *drawn(run, width),
        "",
        "more: gpu-node explain shm.too-small",
        "every finding: gpu-node drift 'inventories/my lab.py' --full",
        "repair: gpu-node deploy 'inventories/my lab.py' --limit a100",
        "A job can start on 1 of 2 nodes; stopped by: shm.too-small (a100-02)",
    ]


def test_what_needs_manual_action_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """Before the run: the report has the rest."""
    run = Run("an error that no deploy repairs")
    run.found["a100-01"] = states.state({"shm": {"usage": {"size": 67108864}}})
    run.answer()
    announce(run.state)
    lines = capsys.readouterr().err.splitlines()
    assert "  shm  a100-01  shm.too-small" in lines
    (manual,) = [line for line in lines if line.startswith("needs manual action: ")]
    assert "driver." in manual and "shm" not in manual


def test_all_is_repaired(capsys: pytest.CaptureFixture[str]) -> None:
    run = Run("an error that the deploy repairs")
    announce(run.state)
    capsys.readouterr()
    ended(run, Run("nothing").found)
    assert capsys.readouterr().err == (
        "\n2 nodes, 2 ok: no problems\nA job can start on 2 of 2 nodes\n"
    )


def test_a_node_that_left_the_run_is_no_proved_one(capsys: pytest.CaptureFixture[str]) -> None:
    """Its state is unknown, whatever it was before."""
    run = Run("an error that the deploy repairs")
    announce(run.state)
    node_of(run.hosts["a100-02"]).out = "the reason"
    capsys.readouterr()
    ended(run, {"a100-01": run.found["a100-01"]})
    shown = capsys.readouterr().err
    assert shown.startswith("\n2 nodes, 1 ok, 1 unreadable\n")
    assert "not proved: the reason" in shown


def test_a_node_without_a_connection(capsys: pytest.CaptureFixture[str]) -> None:
    run = Run("an error that the deploy repairs")
    away = run.hosts["a100-01"]
    run.state.activated_hosts.discard(away)
    run.state.active_hosts.discard(away)
    run.found.pop("a100-01")
    run.answer()
    announce(run.state)
    assert "2 nodes, 1 with drift, 1 unreachable: " in capsys.readouterr().err


def test_nothing_to_repair(capsys: pytest.CaptureFixture[str]) -> None:
    """And nothing to sum up, though an operation may say what needs manual action."""
    run = Run("an error that no deploy repairs")
    announce(run.state)
    *_, line, last = capsys.readouterr().err.splitlines()
    assert (line, last) == (
        "Nothing that the deploy can repair; 1 error needs manual action.",
        "",
    )
    ended(run, {})
    assert capsys.readouterr().err == ""


def test_nothing_to_repair_without_root(capsys: pytest.CaptureFixture[str]) -> None:
    """What only root reads may be something to repair."""
    run = Run("an error that no deploy repairs")
    alice = {"name": "alice", "uid": 1000, "gids": [1000], "groups": ["alice"]}
    for name in NAMES:
        run.found[name] = run.found[name].model_copy(
            update={"limits": states.state({"limits": {"user": alice}}).limits}
        )
    run.answer()
    announce(run.state)
    *_, line, _ = capsys.readouterr().err.splitlines()
    assert line == "a100-02: the deploy needs root; next: gpu-node explain needs-root"


def test_a_part_of_the_run(capsys: pytest.CaptureFixture[str]) -> None:
    """Findings of another area are none of the run's problems."""
    announce(Run("an error that the deploy repairs", areas="ssh").state)
    assert "2 nodes, 2 ok: no problems" in capsys.readouterr().err


def test_a_dry_run_has_no_end(capsys: pytest.CaptureFixture[str]) -> None:
    run = Run("an error that the deploy repairs")
    announce(run.state)
    capsys.readouterr()
    for name in NAMES:
        run.state.trigger_callbacks("host_disconnect", run.hosts[name])
    assert capsys.readouterr().err == ""


def test_a_command_of_ours_reports_itself(capsys: pytest.CaptureFixture[str]) -> None:
    """`gpu-node deploy` and `gpu-node onboard` run pyinfra as a silent child."""
    run = Run("an error that the deploy repairs")
    with interrupt.handled(interrupt.stop_silently, signal.SIGINT):
        announce(run.state)
    ended(run, run.found)
    assert capsys.readouterr().err == ""

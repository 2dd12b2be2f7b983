"""Restarts: what is waited for, what counts as back, and where a roll-out ends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from gevent import GreenletExit, Timeout
from paramiko import SSHException
from pyinfra.api import StringCommand
from pyinfra.api.exceptions import PyinfraError

from gpu_node.deploy.driver import reboot as restart
from gpu_node.facts.ask.session import ProbeError
from gpu_node.facts.node import NodeState
from tests.drift import states

VERSION = "535.154.05"


class Run:
    """A run's state, which outlives its weak references."""


class Node:
    """A host as far as a restart asks for it."""

    connector: Any = None

    def __init__(self, name: str) -> None:
        self.name = name
        self.print_prefix = f"[{name}] "
        self.data = SimpleNamespace(dict=dict)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A node's answers: its boot, whether a reboot was asked for, and what the probe then finds.

    `breaks` are what its next new sessions raise, and `before` is what it was before the run.
    """
    answers = SimpleNamespace(
        boots=iter(["one"]),
        asked="yes",
        found=states.state(),
        before=states.state(),
        reached=True,
        breaks=[],
    )

    def answer(connector: object, command: str) -> Any:
        return answers.asked if restart.MARK in command else next(answers.boots, None)

    @contextmanager
    def fresh(host: object) -> Iterator[None]:
        if not answers.reached:
            raise PyinfraError("no route to host")
        if answers.breaks:
            raise answers.breaks.pop(0)
        yield None

    def probe(host: object, connector: object) -> NodeState:
        found: NodeState = answers.found
        return found

    clock = iter(range(0, 10_000, 100))
    monkeypatch.setattr(restart, "_answer", answer)
    monkeypatch.setattr(restart, "fresh", fresh)
    monkeypatch.setattr(restart, "probe", probe)
    monkeypatch.setattr(restart, "states", lambda run: {"a": answers.before})
    monkeypatch.setattr(restart, "sleep", lambda seconds: None)
    monkeypatch.setattr(restart, "monotonic", lambda: next(clock))
    return answers


def test_a_node_that_comes_back(world: SimpleNamespace) -> None:
    """Another boot, and the driver is right; the old boot, and silence, are waited for."""
    run: Any = Run()
    node: Any = Node("a")
    world.boots = iter(["one", None, "one", "two"])
    assert restart.begin(run, node)
    assert restart.finish(run, node, VERSION)
    world.boots = iter(["one"])
    other: Any = Node("b")
    assert restart.begin(run, other)


def test_a_node_for_which_none_was_due(world: SimpleNamespace) -> None:
    """The node itself decides that, and the run does not wait for it."""
    run: Any = Run()
    node: Any = Node("a")
    world.asked = "no"
    assert restart.begin(run, node)
    assert restart.finish(run, node, VERSION)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"reached": False}, "did not come back within 1800 s"),
        ({"found": {"loaded": {"nvidia": ""}}}, "is back with no nvidia module loaded"),
        ({"found": {"loaded": {"nvidia": "535.1.1"}}}, "is back with nvidia 535.1.1 loaded"),
        ({"found": {"smi": {"gpus": [], "output": "No devices were found"}}}, "No devices"),
        (
            {"found": {"cuda_init": {"code": 999}}},
            "is back with errors that it did not have before: driver.",
        ),
    ],
)
def test_the_roll_out_ends_there(
    world: SimpleNamespace, caplog: pytest.LogCaptureFixture, change: dict[str, Any], says: str
) -> None:
    """The node fails, and so does each that would be rebooted after it."""
    run: Any = Run()
    first: Any = Node("a")
    second: Any = Node("b")
    world.boots = iter(["one", "two", "three"])
    world.reached = change.get("reached", True)
    world.found = states.state({"driver": change.get("found", {})})
    assert restart.begin(run, first)
    assert not restart.finish(run, first, VERSION)
    assert says in caplog.text
    assert not restart.begin(run, second)
    assert "not rebooted: a did not come back" in caplog.text


# What a login raises while sshd closes, or has just begun: of pyinfra, paramiko, sockets, gevent.
BREAKS = {
    "pyinfra": PyinfraError("no route to host"),
    "a socket": ConnectionResetError(104, "Connection reset by peer"),
    "a socket's time": TimeoutError("timed out"),
    "an end": EOFError(),
    "paramiko": SSHException("Error reading SSH protocol banner"),
    "the probe": ProbeError("the probe was cut off"),
    "another class": KeyError("banner"),
    "gevent": Timeout(9),
}


@pytest.mark.parametrize("error", BREAKS.values(), ids=BREAKS)
def test_a_login_that_breaks(
    world: SimpleNamespace, caplog: pytest.LogCaptureFixture, error: BaseException
) -> None:
    """It is waited for, and proved; and for ever it stops the roll-out, whatever breaks it."""
    run: Any = Run()
    node: Any = Node("a")
    other: Any = Node("b")
    world.boots = iter(["one", "two"])
    world.breaks = [error]
    assert restart.begin(run, node) and restart.finish(run, node, VERSION)
    world.boots = iter(["two", "three", "one"])
    world.breaks = [error] * 100
    assert restart.begin(run, node) and not restart.finish(run, node, VERSION)
    world.breaks = []
    assert not restart.begin(run, other)
    assert "no other node will be rebooted" in caplog.text


@pytest.mark.parametrize("error", BREAKS.values(), ids=BREAKS)
def test_a_proof_that_breaks(world: SimpleNamespace, error: BaseException) -> None:
    """The node is back; its state can be asked for again, and else is unknown."""
    run: Any = Run()
    node: Any = Node("a")
    other: Any = Node("b")
    world.boots = iter(["one"])
    assert restart.begin(run, node)
    proof: Any = restart._wrong
    world.breaks = [error]
    assert restart._until(lambda: proof(run, node, VERSION), 300) == ""
    world.breaks = [error] * 100
    assert "its state is unknown" in restart._until(lambda: proof(run, node, VERSION), 300)
    assert restart.begin(run, other) is False


def test_errors_that_the_node_had_before(world: SimpleNamespace) -> None:
    """They are no work of the reboot: the next node is rebooted."""
    run: Any = Run()
    node: Any = Node("a")
    world.boots = iter(["one", "two"])
    world.found = world.before = states.state({"driver": {"cuda_init": {"code": 999}}})
    assert restart.begin(run, node) and restart.finish(run, node, VERSION)


def test_a_node_that_becomes_right(world: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its sshd answers before the driver is loaded."""
    run: Any = Run()
    node: Any = Node("a")
    world.boots = iter(["one", "two"])
    found = iter([states.state({"driver": {"loaded": {"nvidia": ""}}}), states.state()])
    monkeypatch.setattr(restart, "probe", lambda host, connector: next(found))
    assert restart.begin(run, node) and restart.finish(run, node, VERSION)


def test_another_run_begins_anew(world: SimpleNamespace) -> None:
    """What stopped one run is not remembered for the next."""
    one: Any = Run()
    two: Any = Run()
    node: Any = Node("a")
    world.boots = iter([None, "one"])
    assert not restart.begin(one, node)
    assert restart.begin(two, node)


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The script that looks, and reboots: it ends well, refuses, or its session breaks."""
    reported = SimpleNamespace(refuses=(), says=[], breaks=False, run=[])

    def run_shell_command(command: object, *_: object, **arguments: object) -> Any:
        reported.run.append(str(command))
        if reported.breaks and str(command) == "reboot":
            raise EOFError("the session is over")
        return str(command) not in reported.refuses, SimpleNamespace(stdout_lines=reported.says)

    connector = SimpleNamespace(run_shell_command=run_shell_command)
    monkeypatch.setattr(Node, "connector", connector)
    monkeypatch.setattr(restart, "of_operation", lambda *_: {})
    return reported


def _roll_out(folder: Path, drain: str = "", resume: str = "") -> tuple[bool, list[str]]:
    """Reboot a node; return whether that went well, and what the commands wrote, in order."""
    run: Any = Run()
    node: Any = Node("a 1")
    log = folder / "log"
    log.touch()
    drain, resume = (each.replace("LOG", str(log)) for each in (drain, resume))
    words = StringCommand("look"), StringCommand("reboot")
    done = restart.roll_out(run, node, VERSION, *words, drain, resume)
    return done, log.read_text().splitlines()


DRAIN, RESUME = "echo drain {node} >>LOG", "echo resume {node} >>LOG"


def test_a_node_is_drained_and_resumed(
    world: SimpleNamespace, script: SimpleNamespace, tmp_path: Path
) -> None:
    """Its name is one word."""
    world.boots = iter(["one", "two"])
    drain = 'echo "drain:" "$(printf "%s." {node})" >>LOG'
    done, log = _roll_out(tmp_path, drain, RESUME)
    assert (done, log) == (True, ["drain: a 1.", "resume a 1"])


def test_a_node_that_is_not_drained_is_not_rebooted(
    world: SimpleNamespace,
    script: SimpleNamespace,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    done, log = _roll_out(tmp_path, "echo no such node; exit 3", RESUME)
    assert (done, log, script.run) == (False, [], ["look"])
    assert "not rebooted: drain failed: 'echo no such node; exit 3' ended with 3: no such" in (
        caplog.text
    )


def test_a_drain_that_hangs(
    world: SimpleNamespace,
    script: SimpleNamespace,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(restart, "DRAIN_SECONDS", 0.2)
    done, _ = _roll_out(tmp_path, "exec sleep 60")
    assert (done, script.run) == (False, ["look"])
    assert "did not end within 0.2 s" in caplog.text


def test_a_reboot_that_is_refused_is_resumed(
    world: SimpleNamespace, script: SimpleNamespace, tmp_path: Path
) -> None:
    """Nothing was changed on the node: a job has begun while it was drained."""
    script.refuses = ("reboot",)
    world.boots = iter(["one", "one"])
    assert _roll_out(tmp_path, DRAIN, RESUME) == (False, ["drain a 1", "resume a 1"])


def test_a_node_that_is_in_use_is_not_drained(
    world: SimpleNamespace, script: SimpleNamespace, tmp_path: Path
) -> None:
    """A scheduler keeps the request, and would reboot the node later, after this run."""
    script.refuses = ("look",)
    assert _roll_out(tmp_path, DRAIN, RESUME) == (False, [])
    assert script.run == ["look"]


def test_a_node_that_needs_no_reboot_is_not_drained(
    world: SimpleNamespace, script: SimpleNamespace, tmp_path: Path
) -> None:
    script.says = [restart.NOT_DUE]
    assert _roll_out(tmp_path, DRAIN, RESUME) == (True, [])


def test_a_node_that_the_drain_reboots(
    world: SimpleNamespace, script: SimpleNamespace, tmp_path: Path
) -> None:
    """Its session breaks before our script has answered: it is waited for."""
    script.breaks, world.asked = True, None
    world.boots = iter(["one", None, None, "two"])
    assert _roll_out(tmp_path, DRAIN, RESUME) == (True, ["drain a 1", "resume a 1"])


def test_a_node_whose_session_breaks_stops_the_others(
    world: SimpleNamespace,
    script: SimpleNamespace,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It may be away: it is not resumed, and no other one is rebooted."""
    script.breaks, world.asked = True, None
    assert _roll_out(tmp_path, DRAIN, RESUME) == (False, ["drain a 1"])
    assert "did not come back within 1800 s" in caplog.text


@pytest.mark.parametrize("error", [KeyError("boot"), OSError(5, "I/O"), Timeout(1), GreenletExit()])
def test_an_error_after_the_reboot_stops_the_others(
    world: SimpleNamespace,
    script: SimpleNamespace,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException,
) -> None:
    """Of whatever class it is: the node is not proved, so no other one is rebooted."""
    run: Any = Run()
    node: Any = Node("a")
    other: Any = Node("b")

    def broken(*_: object, **__: object) -> bool:
        raise error

    monkeypatch.setattr(restart, "finish", broken)
    with pytest.raises(type(error)):
        restart.roll_out(run, node, VERSION, StringCommand("look"), StringCommand("x"), "", "")
    assert not restart.begin(run, other)
    assert "a did not come back" in caplog.text


def test_the_area_lasts_as_long_as_the_reboot() -> None:
    """pyinfra ends an operation at its area's limit: the roll-out must hear of each node before."""
    before = (2 * restart.DRAIN_SECONDS, 2 * restart.CHECK_SECONDS, restart.SECONDS)
    # The last try of each wait may begin just before its end.
    parts = (*before, restart.SETTLE_SECONDS, 2 * restart.TRY_SECONDS)
    assert sum(parts) <= restart.LIMIT_SECONDS
    source = (Path(__file__).parents[2] / "deploy" / "gpu_node.py").read_text(encoding="utf-8")
    assert 'alone(host, "reboot", restart.LIMIT_SECONDS' in source


def test_a_node_that_stays_away_is_not_resumed(
    world: SimpleNamespace, script: SimpleNamespace, tmp_path: Path
) -> None:
    """No job may start there."""
    world.reached = False
    assert _roll_out(tmp_path, DRAIN, RESUME) == (False, ["drain a 1"])


def test_a_resume_that_fails_is_an_error(
    world: SimpleNamespace,
    script: SimpleNamespace,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    world.boots = iter(["one", "two"])
    done, _ = _roll_out(tmp_path, "", "exit 1")
    assert not done
    assert "resume failed: 'exit 1' ended with 1" in caplog.text

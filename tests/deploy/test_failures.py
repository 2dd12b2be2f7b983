"""An area that fails on a node: the areas that depend on it do not run, all others do."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
from pyinfra.api import Host, State

from gpu_node.deploy.engine import proof
from gpu_node.deploy.engine.run import node_of
from gpu_node.facts.ask import patience
from tests import fork_server
from tests.clock import Clock

WORK = """
from pyinfra import host
from pyinfra.api import FunctionCommand, deploy, operation
from pyinfra.operations import server
from gpu_node.deploy.engine.failures import alone
from gpu_node.deploy.engine.run import node_of
from gpu_node.deploy.engine.interruption import watch


@deploy("Part")
def part(name, command):
    server.shell(name=f"{name}, first", commands=[command])
    server.shell(name=f"{name}, second", commands=[f"touch FOLDER/{name}"])


def report(state, host):
    open("FOLDER/failed", "w").write(" ".join(node_of(host).failed))
    return not node_of(host).failed


@operation(is_idempotent=False)
def end():
    yield FunctionCommand(report, [], {})


watch(host.state)
part("driver", "COMMAND", **alone(host, "driver", 60))
part("shm", "true", **alone(host, "shm", 60))
part("reboot", "true", **alone(host, "reboot", 60, after=["driver"]))
end(name="End")
"""
SECONDS = 60


def run(folder: Path, command: str) -> int:
    """Run three parts, of which the first has this command; return pyinfra's exit code."""
    (folder / "site.py").write_text('nodes = ["@local"]\n')
    work = WORK.replace("FOLDER", str(folder)).replace("COMMAND", command)
    (folder / "work.py").write_text(work)
    words = ["pyinfra", "-y", "site.py", "work.py"]
    done = fork_server.run(*words, cwd=folder, env=dict(os.environ), seconds=SECONDS)
    assert "Traceback" not in done.stderr
    return done.returncode


@pytest.mark.parametrize("command", ["false", "kill -9 $$"])
def test_a_failure_ends_its_area_and_those_after_it(tmp_path: Path, command: str) -> None:
    """The node is in the run until its end, and fails there."""
    assert run(tmp_path, command) == 1
    assert (tmp_path / "failed").read_text() == "driver"
    assert {path.name for path in tmp_path.iterdir()} >= {"shm"}
    assert not (tmp_path / "driver").exists() and not (tmp_path / "reboot").exists()


APART = """
from gpu_node.deploy.engine.failures import apart, whole


@deploy("Environments")
def environments():
    with apart(host, "one"):
        server.shell(name="one, first", commands=["false"])
        server.shell(name="one, second", commands=["touch FOLDER/one"])
    with apart(host, "two"):
        server.shell(name="two", commands=["touch FOLDER/two"])
    with whole(host):
        server.shell(name="all", commands=["touch FOLDER/all"])
    server.shell(name="rest", commands=["touch FOLDER/rest"])


watch(host.state)
environments(**alone(host, "nccl", 60))
part("reboot", "true", **alone(host, "reboot", 60, after=["nccl"]))
end(name="End")
"""


def test_a_failed_subject_takes_no_other_with_it(tmp_path: Path) -> None:
    """Its later operations do not run, nor the areas that need the whole area."""
    (tmp_path / "site.py").write_text('nodes = ["@local"]\n')
    work = WORK.partition("watch(host.state)")[0] + APART
    (tmp_path / "work.py").write_text(work.replace("FOLDER", str(tmp_path)))
    words = ["pyinfra", "-y", "site.py", "work.py"]
    done = fork_server.run(*words, cwd=tmp_path, env=dict(os.environ), seconds=SECONDS)
    assert done.returncode == 1
    made = {name: (tmp_path / name).exists() for name in ("one", "two", "all", "rest", "reboot")}
    assert made == {
        **{"one": False, "two": True},
        **{"all": False, "rest": True, "reboot": False},
    }
    assert (tmp_path / "failed").read_text() == "nccl"
    assert "nccl: one: failed; the rest of nccl and the other areas go on" in done.stderr


LOST = {
    "silent": (
        "sleep 30",
        '"driver", 60',
        '"driver", 1',
        "did not end within its time limit (1 s)",
    ),
    "silent when a fact is asked": (
        "false",
        "watch(host.state)",
        "watch(host.state); failures.missed = lambda _: 60",
        "of driver did not end within its time limit (60 s)",
    ),
    "broken": (
        "false",
        "watch(host.state)",
        "watch(host.state); failures.is_open = lambda _: False",
        "its connection broke in an operation of driver",
    ),
}


@pytest.mark.parametrize(("command", "old", "new", "why"), LOST.values(), ids=LOST)
def test_a_node_that_is_lost_is_out_of_the_run(
    tmp_path: Path, command: str, old: str, new: str, why: str
) -> None:
    """It holds up the others once, and one line says so: nothing more is tried or printed."""
    (tmp_path / "site.py").write_text('nodes = ["@local"]\n')
    work = WORK.replace(old, new).replace("FOLDER", str(tmp_path)).replace("COMMAND", command)
    (tmp_path / "work.py").write_text(f"from gpu_node.deploy.engine import failures\n{work}")
    words = ["pyinfra", "-y", "site.py", "work.py"]
    done = fork_server.run(*words, cwd=tmp_path, env=dict(os.environ), seconds=SECONDS)
    assert done.returncode == 1
    # No operation follows, not even the last one, which would write `failed`.
    assert not any((tmp_path / name).exists() for name in ("driver", "shm", "reboot", "failed"))
    printed = done.stdout + done.stderr
    assert f"{why}; the node is out of this run, its other areas are not tried" in printed
    assert "run again with --limit @local: that run finishes the work" in printed
    about = [line for line in printed.splitlines() if "[@local]" in line]
    assert about[-1].startswith("    [@local] driver: failed: "), about
    assert sum("out of this run" in line or "connection" in line for line in about) == 1


def test_a_node_that_is_out_is_not_asked_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its proof fails with the reason, without another wait."""

    class Node:
        name, print_prefix, state = "n", "[n] ", State()

    node = cast(Host, Node())
    node_of(node).out = "an operation of shm did not end within 900 s"
    assert not proof._ask_again(node.state, node)
    assert "not asked again: an operation of shm did not end within 900 s" in caplog.text


def test_a_node_that_is_silent_at_its_proof(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is given up once the others have answered."""

    class Node:
        def __init__(self, name: str, state: State) -> None:
            self.name, self.print_prefix, self.state = name, f"[{name}] ", state

    @contextmanager
    def fresh(host: Host) -> Iterator[str]:
        yield "connection"

    clock = Clock()
    clock.replace_in(patience, monkeypatch)
    monkeypatch.setattr(proof, "fresh", fresh)
    monkeypatch.setattr(proof, "probe", lambda host, _: clock.sleep(3000 * (host.name == "b")))
    state = State()
    state.active_hosts = cast(Any, {Node("a", state), Node("b", state)})
    nodes = sorted(state.active_hosts, key=lambda node: node.name)
    assert clock.run(*(partial(proof._ask_again, state, each) for each in nodes)) == [True, False]
    assert "it sent nothing for 30 s" in caplog.text


def test_all_areas_run_where_none_fails(tmp_path: Path) -> None:
    assert run(tmp_path, "true") == 0
    assert (tmp_path / "failed").read_text() == ""
    assert all((tmp_path / name).exists() for name in ("driver", "shm", "reboot"))


@pytest.mark.parametrize("work", [WORK, WORK.partition("watch(host.state)")[0] + APART])
def test_a_dry_run_counts_each_operation_as_a_change(tmp_path: Path, work: str) -> None:
    """None is a conditional change: an operation is skipped only after a failure."""
    (tmp_path / "site.py").write_text('nodes = ["@local"]\n')
    (tmp_path / "work.py").write_text(
        work.replace("FOLDER", str(tmp_path)).replace("COMMAND", "true")
    )
    words = ["pyinfra", "--dry", "--json", "site.py", "work.py"]
    done = fork_server.run(*words, cwd=tmp_path, env=dict(os.environ), seconds=SECONDS)
    plan = json.loads(done.stdout.splitlines()[-1])["plan"]
    assert plan and all(each["hosts_with_change"] == ["@local"] for each in plan)

"""An area that fails on a node: the areas that depend on it do not run, all others do."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests import fork_server

WORK = """
from pyinfra import host
from pyinfra.api import FunctionCommand, deploy, operation
from pyinfra.operations import server
from deploy.failures import alone, failed
from deploy.interruption import watch


@deploy("Part")
def part(name, command):
    server.shell(name=f"{name}, first", commands=[command])
    server.shell(name=f"{name}, second", commands=[f"touch FOLDER/{name}"])


def report(state, host):
    open("FOLDER/failed", "w").write(" ".join(failed(host)))
    return not failed(host)


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


def test_all_areas_run_where_none_fails(tmp_path: Path) -> None:
    assert run(tmp_path, "true") == 0
    assert (tmp_path / "failed").read_text() == ""
    assert all((tmp_path / name).exists() for name in ("driver", "shm", "reboot"))


def test_a_dry_run_counts_each_operation_as_a_change(tmp_path: Path) -> None:
    """None is a conditional change: an operation is skipped only after a failure."""
    (tmp_path / "site.py").write_text('nodes = ["@local"]\n')
    (tmp_path / "work.py").write_text(
        WORK.replace("FOLDER", str(tmp_path)).replace("COMMAND", "true")
    )
    words = ["pyinfra", "--dry", "--json", "site.py", "work.py"]
    done = fork_server.run(*words, cwd=tmp_path, env=dict(os.environ), seconds=SECONDS)
    plan = json.loads(done.stdout.splitlines()[-1])["plan"]
    assert plan and all(each["hosts_with_change"] == ["@local"] for each in plan)

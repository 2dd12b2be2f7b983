"""`gpu-node drift --via slurm` on a real Slurm: what jobs see, nodes without one, and its end."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
from collections.abc import Iterator
from getpass import getuser
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.cli.test_contract import SCHEMA
from tests.commands import BIN, environment
from tests.slurm.conftest import Slurm, until, until_dead

pytestmark = pytest.mark.slurm

CLUSTER = """cluster: c
defaults:
  ssh: {{user: {user}, key: key, known_hosts: known_hosts}}
hosts:
  a100-01: {{address: 192.0.2.1}}
  v100-01: {{address: 192.0.2.2}}
  v100-02: {{address: 192.0.2.3}}
"""
JOBS = ("squeue", "--noheader")
# After a canceled job slurmstepd looks for its processes after 1, 2, 4, ... and 32 seconds, until
# UnkillableStepTimeout, and the job is `completing` so long.
COMPLETING_SECONDS = 100


@pytest.fixture
def inventory(tmp_path: Path, slurm: Slurm) -> Iterator[str]:
    """Three nodes whose addresses are not used; afterwards no job is left."""
    (tmp_path / "site.yml").write_text(CLUSTER.format(user=getuser()))
    (tmp_path / "known_hosts").touch()
    subprocess.run(["ssh-keygen", "-qt", "ed25519", "-N", "", "-f", tmp_path / "key"], check=True)
    yield str(tmp_path / "site.yml")
    slurm.until("", *JOBS, seconds=COMPLETING_SECONDS)


def report(inventory: str) -> dict[str, Any]:
    """Return the nodes of a report by jobs, which have 777 open files: this shell's limit."""
    words = [str(BIN / "gpu-node"), "drift", inventory, "--via", "slurm", "--format", "json"]
    done = subprocess.run(
        ["sh", "-c", f"ulimit -Sn 777; exec {shlex.join(words)}"],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (1, ""), done  # v100-02 has no slurmd
    found: dict[str, Any] = json.loads(done.stdout)
    jsonschema.validate(found, json.loads(SCHEMA.read_text()))
    hosts: dict[str, Any] = found["hosts"]
    return hosts


def test_a_report_of_jobs(inventory: str) -> None:
    """It is what a job sees: Slurm hands limits on. The node without a slurmd is unreachable."""
    hosts = report(inventory)
    jobs = [hosts[name]["slurm_job"] for name in ("a100-01", "v100-01")]
    assert all(isinstance(each, int) for each in jobs) and len({*jobs}) == 2
    for name in ("a100-01", "v100-01"):
        assert hosts[name]["error"] is None
        assert hosts[name]["facts"]["toolchain"]["kernel"] == os.uname().release
        assert hosts[name]["facts"]["limits"]["user"]["name"] == getuser()
        assert hosts[name]["facts"]["limits"]["session"]["nofile"]["soft"] == 777
    lost = hosts["v100-02"]
    assert (lost["status"], lost["slurm_job"]) == ("unreachable", None)
    assert lost["error"].startswith("Slurm has it as ")


def test_no_secret_of_the_caller_reaches_a_node(
    inventory: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any other process of the job could read it; what a job needs to run is there."""
    seen = tmp_path / "seen"
    real = shutil.which("uname")
    (tmp_path / "uname").write_text(f'#!/bin/sh\nenv >>{seen}\nexec {real} "$@"\n')
    (tmp_path / "uname").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    for name in ("HF_TOKEN", "SLURM_EXPORT_ENV"):
        monkeypatch.setenv(name, "ALL")
    monkeypatch.setenv("SLURM_PARTITION", "all")
    report(inventory)
    lines = seen.read_text().splitlines()
    assert {f"HOME={os.environ['HOME']}", f"PATH={os.environ['PATH']}"} <= {*lines}
    assert "SLURM_JOB_PARTITION=all" in lines
    assert not [line for line in lines if line.startswith("HF_TOKEN=")]


def test_nodes_that_take_no_job(inventory: str, slurm: Slurm) -> None:
    """One is drained, with the reason; one is in use: its job waits for seconds, and is gone."""
    slurm.ask("scontrol", "update", "NodeName=v100-01", "State=DRAIN", "Reason=bad dimm")
    busy = subprocess.Popen(["srun", "--gres=gpu:1", "--nodelist=a100-01", "sleep", "100"])
    try:
        slurm.until("RUNNING", "squeue", "--noheader", "-o%T")
        hosts = report(inventory)
    finally:
        busy.terminate()
        busy.wait(30)
        slurm.ask("scontrol", "update", "NodeName=v100-01", "State=RESUME")
        slurm.until_idle()
    assert {each["status"] for each in hosts.values()} == {"unreachable"}
    assert hosts["v100-01"]["error"] == "Slurm has it as drained: bad dimm"
    assert "Slurm started no job on it: " in hosts["a100-01"]["error"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_its_jobs_end_with_it(
    inventory: str, slurm: Slurm, tmp_path: Path, number: signal.Signals
) -> None:
    """On Ctrl-C, and where it is killed."""
    # The path of this shell is a job's: the probe takes a while there.
    started = tmp_path / "started"
    (tmp_path / "uname").write_text(f"#!/bin/sh\nsleep 2\necho $$ >{started}\nexec sleep 100\n")
    (tmp_path / "uname").chmod(0o755)
    process = subprocess.Popen(
        [BIN / "gpu-node", "drift", inventory, "--via", "slurm", "--limit", "v100-01"],
        env={**environment(), "PATH": f"{tmp_path}:{os.environ['PATH']}"},
        stderr=subprocess.PIPE,
        text=True,
    )
    until(started)
    process.send_signal(number)
    _, stderr = process.communicate(timeout=30)
    assert process.returncode == (1 if number == signal.SIGINT else -number)
    assert ("gpu-node: interrupted" in stderr) == (number == signal.SIGINT)
    slurm.until("", *JOBS, "--states=PENDING,RUNNING", seconds=15)
    until_dead(int(started.read_text()))

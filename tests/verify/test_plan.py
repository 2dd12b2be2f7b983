"""The script of the launching node for each kind of launcher, and when it ends."""

from __future__ import annotations

import secrets
import shlex
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gpu_node.facts.probe.peers import Peer
from gpu_node.verify.nodes import START, folder, parse_rank_output
from gpu_node.verify.plan import Placement, Start, commands, kind_of, script
from tests.verify.job_scripts import program, run, with_shell

A = Placement(Peer(name="a100-01", address="10.0.0.4"), "/opt/a/bin/python", "2.1.0", 2)
V = Placement(Peer(name="v100-01", address="10.0.0.5", port=2222), "/opt/v/bin/python", "2.1.0", 3)
START_OF = Start(
    run="test-plan",
    kind="torchrun",
    placements=(A, V),
    port=29500,
    backend="nccl",
    size=1 << 20,
    seconds=60,
)
JOB = "/tmp/gpu-node-verify-test-plan/job.py reduce nccl 1048576 60 a100-01 29500"


def words(start: Start) -> list[str]:
    """Return the commands as a user types them."""
    return [" ".join(argv) for argv in commands(start)]


@pytest.mark.parametrize("kind", ["torchrun", "accelerate"])
def test_torchrun_logs_in_to_every_node_by_name(kind: str) -> None:
    """The launching node's ranks are started by a login as well."""
    first, second = words(replace(START_OF, kind=kind))
    assert " a100-01 sh /tmp/gpu-node-verify-test-plan/start.sh 70 /opt/a/bin/python " in first
    assert "-p 2222 v100-01 sh " in second and " -p " not in first
    for number, line, ranks in ((0, first, 2), (1, second, 3)):
        assert line.startswith("ssh -n -o BatchMode=yes -o StrictHostKeyChecking=yes ")
        assert (
            f"--nnodes 2 --node_rank {number} --nproc_per_node {ranks} --master_addr a100-01 "
            in (line)
        )
        assert line.endswith(JOB)
        assert line.count("StrictHostKeyChecking") == 1


def test_before_torchrun_there_was_launch() -> None:
    """PyTorch 1.8 has no torch.distributed.run."""
    old = replace(START_OF, placements=(replace(A, torch="1.8.2+cu111"), V))
    first, second = words(old)
    assert "-m torch.distributed.launch --use_env --nnodes 2" in first and "--rdzv" not in first
    assert "-m torch.distributed.run --nnodes 2" in second


def test_deepspeed_gets_a_hostfile() -> None:
    """It is written to the run's folder, with a slot for each GPU."""
    start = replace(START_OF, kind="deepspeed")
    (line,) = words(start)
    where = folder("test-plan")
    assert f"/opt/a/bin/python -m deepspeed.launcher.runner --hostfile {where}/hostfile" in line
    assert "--master_addr a100-01 --master_port 29500 --ssh_port 2222" in line
    assert line.endswith(JOB)
    assert "a100-01 slots=2\nv100-01 slots=3\n" in script(start)


def test_deepspeed_hands_on_where_caches_are(here: Start, tmp_path: Path) -> None:
    """Its runner passes on what a file in its folder has, and no other variables."""
    start = replace(here, kind="deepspeed")
    text = script(start)
    assert text.index(".deepspeed_env") < text.index("deepspeed.launcher.runner")
    run(text, with_shell(tmp_path / "bin", "dash"))
    where = folder(start.run)
    lines = Path(where, ".deepspeed_env").read_text().splitlines()
    assert "PYTHONDONTWRITEBYTECODE=1" in lines
    assert f"TRITON_CACHE_DIR={where}/cache/triton" in lines


def test_mpirun_hands_on_where_caches_are() -> None:
    """Open MPI passes on only the variables named by -x."""
    (line,) = words(replace(START_OF, kind="mpirun"))
    where = folder("test-plan")
    assert " -x PYTHONDONTWRITEBYTECODE=1 " in line
    assert f" -x XDG_CACHE_HOME={where}/cache " in line


def test_mpirun_counts_the_ranks_of_each_node() -> None:
    """Open MPI refuses root without --allow-run-as-root."""
    start = replace(START_OF, kind="mpirun")
    (line,) = words(start)
    assert " mpirun -np 5 -H a100-01:2,v100-01:3 " in line
    assert " mpirun --allow-run-as-root -np 5 " in words(replace(start, is_root=True))[0]


@pytest.mark.parametrize("kind", ["torchrun", "deepspeed", "mpirun"])
def test_one_node_needs_no_login(kind: str) -> None:
    """Its ranks are started where the command is."""
    start = replace(START_OF, kind=kind, placements=(A,))
    (line,) = words(start)
    assert kind_of(start) == "torchrun"
    assert line.startswith("sh /tmp/gpu-node-verify-test-plan/start.sh 70 /opt/a/bin/python -m ")


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Start]:
    """A run of two nodes in this machine's /tmp, whose ssh runs what it is given."""
    # Sessions of several users may have one tmp_path.name.
    start = replace(START_OF, run=f"test-{secrets.token_hex(8)}", seconds=20)
    subprocess.run(["mkdir", folder(start.run)], check=True)
    Path(folder(start.run), "start.sh").write_text(START)
    yield start
    subprocess.run(["rm", "-rf", folder(start.run)], check=True)


def launched(start: Start, tmp_path: Path, shell: str, does: dict[str, str]) -> tuple[float, str]:
    """Run the script with a stand-in for ssh; return the seconds, and the files' contents."""
    cases = "\n".join(f"*' {name} sh '*) {what} ;;" for name, what in does.items())
    program(tmp_path / "bin", "ssh", f'case "$*" in\n{cases}\nesac\n')
    began = time.monotonic()
    done = run(script(start), with_shell(tmp_path / "bin", shell))
    assert (done.stdout, done.returncode) == ("", 0), done.stderr
    read = "for file in exit.*; do echo exit ${file##*.} $(cat $file); done; " + (
        "for file in log.*; do sed s/^/log\\ ${file##*.}\\ / $file; done"
    )
    files = subprocess.run(
        ["sh", "-c", f"cd {shlex.quote(folder(start.run))}; {read}"], capture_output=True, text=True
    )
    return time.monotonic() - began, files.stdout


def test_the_script_ends_when_all_have(here: Start, tmp_path: Path, shell: str) -> None:
    """Each command has its exit status and its output."""
    does = {"a100-01": "echo first", "v100-01": "sleep 1; echo second >&2"}
    seconds, files = launched(here, tmp_path, shell, does)
    found = parse_rank_output(files)
    assert (found.exits, found.logs) == ({0: 0, 1: 0}, {0: ("first",), 1: ("second",)})
    assert 1 <= seconds < 40


def test_after_a_failure_the_others_have_a_moment(here: Start, tmp_path: Path) -> None:
    """The script does not wait for ranks that wait for a failed node."""
    does = {"a100-01": "exec sleep 60", "v100-01": "echo Permission denied; exit 255"}
    seconds, files = launched(here, tmp_path, "dash", does)
    assert parse_rank_output(files).exits == {1: 255}
    assert 4 <= seconds < 40


def test_the_script_ends_with_its_time(here: Start, tmp_path: Path) -> None:
    """It does not wait for a job that hangs."""
    does = {"a100-01": "exec sleep 60", "v100-01": "exec sleep 60"}
    seconds, files = launched(replace(here, seconds=2), tmp_path, "dash", does)
    assert (seconds < 40, parse_rank_output(files).exits) == (True, {})

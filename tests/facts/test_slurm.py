"""The probe as Slurm jobs, with stand-ins for srun and sinfo: what is asked, and what counts."""

from __future__ import annotations

import getpass
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from gpu_node.facts.ask.gather import Answer
from gpu_node.facts.ask.via import engines, processes, slurm
from gpu_node.facts.ask.via.question import Question
from gpu_node.facts.ask.via.slurm import Member, NoSlurm

pytestmark = pytest.mark.slow

# Runs a task here, in the name of the node that --nodelist has; `instead` is run in its place.
SRUN = """#!/bin/sh
echo "$*" >>'{folder}/calls'
env | grep ^SLURM_ >>'{folder}/environment'
for word; do
    case $word in
    --nodelist=*) SLURMD_NODENAME=${{word#*=}} ;;
    sh) break ;;
    esac
done
while [ "$1" != sh ]; do shift; done
SLURM_JOB_ID=4711
export SLURMD_NODENAME SLURM_JOB_ID
[ ! -e "{folder}/instead.$SLURMD_NODENAME" ] || exec sh "{folder}/instead.$SLURMD_NODENAME" "$@"
exec "$@"
"""
NODES = """a100-01|mixed|gpu:a100:8(S:0-1)|none
v100-01|idle|(null)|none
drained|drained|gpu:8|bad | dimm
lost|down*|(null)|Not responding
off|idle~|(null)|none
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the stand-ins, first in PATH, and what they were called with."""
    for name, text in (
        ("srun", SRUN.format(folder=tmp_path)),
        ("sinfo", f"#!/bin/sh\ncat {tmp_path}/nodes\n"),
    ):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    (tmp_path / "nodes").write_text(NODES)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    for name in [name for name in os.environ if name.startswith("SLURM_")]:
        monkeypatch.delenv(name)
    return tmp_path


def question(name: str, **data: Any) -> Question:
    return Question(name, data, "0123456789abcdef", in_job=True)


def asked(*names: str, last: float = 180, **data: Any) -> dict[str, Answer]:
    return slurm.gather([question(name, **data) for name in names], last)


def test_a_job_on_each_node(folder: Path) -> None:
    """It is one task, on that node alone, with all of its GPUs, and with a limit."""
    found = asked("a100-01", "v100-01")
    assert list(found) == ["a100-01", "v100-01"]
    for each in found.values():
        assert (each.error, each.reached, each.slurm_job) == (None, True, 4711)
        assert each.state is not None and each.state.limits.user is not None
        assert each.state.limits.user.name == getpass.getuser()
    first, second = sorted((folder / "calls").read_text().split("--nodes=1")[1:])
    assert "--ntasks=1" in first and "--nodelist=a100-01 " in first
    assert "--immediate=10 --time=" in first and "--gres=gpu:8 " in first
    assert "--nodelist=v100-01 " in second and "--gres" not in second


def test_what_a_user_asks_srun_for(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its variables count; those of a job that this process is in do not."""
    monkeypatch.setenv("SLURM_GRES", "none")
    monkeypatch.setenv("SLURM_PARTITION", "debug")
    unwanted = ("SLURM_JOB_ID", "SLURM_JOBID", "SLURM_NNODES", "SLURM_LABELIO", "SLURM_STEP_ID")
    for name in unwanted:
        monkeypatch.setenv(name, "1")
    assert asked("a100-01")["a100-01"].error is None
    assert "--gres" not in (folder / "calls").read_text()
    given = dict(line.split("=", 1) for line in (folder / "environment").read_text().split())
    assert given == {"SLURM_GRES": "none", "SLURM_PARTITION": "debug"}


def test_a_job_gets_no_secret(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Slurm's variables go with a job in any case: its token is not given to srun."""
    monkeypatch.setenv("SLURM_JWT", "secret")
    assert asked("a100-01")["a100-01"].error is None
    assert " --export=HOME,LOGNAME,PATH,SHELL,USER " in (folder / "calls").read_text()
    assert "SLURM_JWT" not in (folder / "environment").read_text()


def test_nothing_is_asked_as_another_user() -> None:
    """Of the calling user the logins are tried; sudo and the training user are left out."""
    data = {"_sudo": True, "launcher_user": "alice", "ssh_user": "bob", "ssh_mesh": True}
    request = question("a", **data).request
    assert (request.sudo, request.user, request.trains_apart, request.logins) == (
        *(False, "", False),
        False,
    )
    assert question("a", ssh_user=getpass.getuser()).request.logins


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("drained", "Slurm has it as drained: bad | dimm"),
        ("lost", "Slurm has it as down, and its slurmd does not respond: Not responding"),
        ("off", "Slurm has switched it off to save power (idle~)"),
        ("a100-09", "Slurm has no node of this name in a partition"),
        ("a100-[01-02]", "Slurm has no node of this name in a partition"),
    ],
)
def test_a_node_without_jobs(folder: Path, name: str, reason: str) -> None:
    """Is unreachable, for Slurm's reason; srun is not called for it."""
    found = asked(name)[name]
    assert (found.state, found.reached) == (None, False)
    assert (found.error or "").startswith(reason)
    assert not (folder / "calls").exists()


@pytest.mark.parametrize(
    ("state", "closed"),
    [
        *(
            (state, False)
            for state in ("idle", "mixed", "allocated", "completing", "idle-", "mixed+")
        ),
        *(
            (state, True)
            for state in ("down", "draining", "draining*", "idle*", "failing", "idle%")
        ),
    ],
)
def test_states_of_slurm(state: str, closed: bool) -> None:
    assert bool(Member(state).closed) == closed


@pytest.mark.parametrize(
    ("gres", "count"),
    [
        ("gpu:a100:8(S:0-1)", 8),
        ("gpu:2", 2),
        ("gpu:v100:4(S:0),gpu:t4:1", 5),
        ("(null)", 0),
        ("craynetwork:4", 0),
        ("gpu:a100_1g.5gb:7", 7),
    ],
)
def test_gpus_of_a_node(gres: str, count: int) -> None:
    assert slurm._gpus(gres) == count


BUSY = """echo 'srun: job 5 queued and waiting for resources' >&2
echo 'srun: error: Unable to allocate resources: Requested nodes are busy' >&2
exit 1
"""


def test_a_node_in_use(folder: Path) -> None:
    """The others are read."""
    (folder / "instead.a100-01").write_text(BUSY)
    found = asked("a100-01", "v100-01")
    assert found["v100-01"].state is not None
    assert not found["a100-01"].reached
    assert found["a100-01"].error == (
        "Slurm started no job on it: Unable to allocate resources: Requested nodes are busy"
    )


def test_a_job_without_the_name_of_its_node(folder: Path) -> None:
    """It did start; its node cannot be determined."""
    (folder / "instead.a100-01").write_text('unset SLURMD_NODENAME; exec "$@"\n')
    found = asked("a100-01")["a100-01"]
    assert (found.state, found.reached) == (None, True)
    assert found.error == (
        "found a job without SLURMD_NODENAME; allowed: the variable that slurmd sets; next: look "
        "for what removes it: srun --nodelist=a100-01 env"
    )


# Notes a SIGTERM, as srun cancels its job for it.
SLOW = "trap 'echo cancelled >>{folder}/cancelled; exit 1' TERM\nsleep 60 &\nwait\n"


def test_a_slow_job_is_cancelled(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once the others have answered; srun gets the signal for which it cancels."""
    monkeypatch.setattr(processes, "_LOOK_SECONDS", 0.05)
    (folder / "instead.v100-01").write_text(SLOW.format(folder=folder))
    begun = time.monotonic()
    found = asked("a100-01", "v100-01", last=0.5)
    assert "it has not answered 0.5 s after half of the others" in (found["v100-01"].error or "")
    assert found["a100-01"].state is not None
    assert (folder / "cancelled").exists()
    assert time.monotonic() - begun < 30


def test_srun_ends_with_this_process(folder: Path) -> None:
    """Also where it is killed."""
    (folder / "instead.v100-01").write_text(f"touch {folder}/begun\n{SLOW.format(folder=folder)}")
    (folder / "nodes.py").write_text("hosts = [('v100-01', {})]\n")
    code = (
        "from gevent import monkey; monkey.patch_all()\n"
        "from gpu_node.facts.ask.via import engines\n"
        f"engines.gather_via('slurm', '{folder}/nodes.py', ())"
    )
    process = subprocess.Popen([sys.executable, "-c", code], cwd=folder)
    _until(folder / "begun")
    process.send_signal(signal.SIGKILL)
    process.wait()
    _until(folder / "cancelled")


def _until(file: Path) -> None:
    end = time.monotonic() + 30
    while not file.exists():
        assert time.monotonic() < end, file
        time.sleep(0.05)


def test_without_slurm(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its commands are missing, or its controller does not answer."""
    (folder / "sinfo").write_text(
        "#!/bin/sh\necho 'slurm_load_partitions: no contact' >&2; exit 1\n"
    )
    with pytest.raises(NoSlurm, match="sinfo: slurm_load_partitions: no contact"):
        asked("v100-01")
    (folder / "sinfo").write_text("#!/bin/sh\necho 'sinfo: fatal: no config' >&2; exit 1\n")
    with pytest.raises(NoSlurm, match=r"^sinfo: no config$"):
        asked("v100-01")
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(NoSlurm, match="no program srun"):
        asked("v100-01")


def test_what_is_no_node(folder: Path) -> None:
    (folder / "nodes.py").write_text("hosts = ['@local']\n")
    with pytest.raises(engines.NotANode, match="@local"):
        engines.gather_via("slurm", str(folder / "nodes.py"), ())

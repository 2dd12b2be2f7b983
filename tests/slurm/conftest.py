"""A Slurm cluster of this machine: its controller, munge, and a slurmd for each of two nodes.

All of it runs as the user of the tests, in a new folder, on free ports of loopback, and ends with
the tests. The machine's own configuration of Slurm and munge is not read.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from getpass import getuser
from pathlib import Path

import pytest

from gpu_node.facts.ask.via.processes import with_parent

# v100-02 has no slurmd.
NODES, WITHOUT = ("a100-01", "v100-01"), "v100-02"
CONFIG = """ClusterName=gpunode
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/builtin
MpiDefault=none
ReturnToService=2
KillWait=2
SlurmdParameters=config_overrides
GresTypes=gpu
NodeName=a100-01 NodeHostname={host} NodeAddr=127.0.0.1 Port={a100-01} CPUs=2 Gres=gpu:1
NodeName=v100-01 NodeHostname={host} NodeAddr=127.0.0.1 Port={v100-01} CPUs=2
NodeName=v100-02 NodeHostname={host} NodeAddr=127.0.0.1 Port={v100-02} CPUs=2
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""
GRES = "NodeName=a100-01 Name=gpu File=/dev/null\n"
# From this release on slurmd wants cgroups, also where no plugin uses them.
WITHOUT_CGROUPS = 23
START_SECONDS = 30


@dataclass(frozen=True)
class Slurm:
    """The running cluster."""

    folder: Path

    def ask(self, *words: str) -> str:
        """Return what a command of Slurm prints."""
        done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True)
        return done.stdout

    def until(self, is_so: str, *words: str, seconds: float = START_SECONDS) -> None:
        """Wait until the output of a command is a text, without the blanks around it."""
        end = time.monotonic() + seconds
        while (found := self.ask(*words).strip()) != is_so:
            assert time.monotonic() < end, f"{found!r}, not {is_so!r}\n{self.logs()}"
            time.sleep(0.1)

    def until_idle(self) -> None:
        """Wait until each slurmd has answered: a node that resumed is `idle*` before."""
        idle = "\n".join(["idle"] * len(NODES))
        self.until(idle, "sinfo", "-hN", "-o%T", "-n", ",".join(NODES))

    def logs(self) -> str:
        return "\n".join(each.read_text()[-2000:] for each in self.folder.glob("*.log"))


@pytest.fixture(scope="session")
def slurm() -> Iterator[Slurm]:
    """The cluster; SLURM_CONF names it to every command of Slurm."""
    # Not pytest's folder: the path of a socket has at most 107 bytes.
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gpu-node-slurm-")))
        folder.chmod(0o755)
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        for name in [name for name in os.environ if name.startswith("SLURM_")]:
            patch.delenv(name)
        patch.setenv("SLURM_CONF", str(_configured(folder)))
        for words in _daemons(folder):
            stack.callback(_end, _start(words, folder))
        made = Slurm(folder)
        stack.callback(_cancel)
        _until_answered(made)
        made.until_idle()
        yield made


def _configured(folder: Path) -> Path:
    """Write the configuration of Slurm, and a key of munge; return the file's path."""
    (folder / "munge.key").write_bytes(secrets.token_bytes(128))
    (folder / "munge.key").chmod(0o400)
    for name in ("state", *(f"spool-{node}" for node in NODES)):
        (folder / name).mkdir()
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(4)]
        ports = [each.getsockname()[1] for each in sockets]
    given = dict(zip(("controller", *NODES, WITHOUT), ports, strict=True))
    host = socket.gethostname().split(".")[0]
    text = CONFIG.format(host=host, user=getuser(), folder=folder, **given)
    (folder / "slurm.conf").write_text(text)
    (folder / "gres.conf").write_text(GRES)
    match = re.search(r"(\d+)\.", subprocess.check_output([_program("slurmd"), "-V"], text=True))
    if match and int(match[1]) >= WITHOUT_CGROUPS:
        (folder / "cgroup.conf").write_text("CgroupPlugin=disabled\n")
    return folder / "slurm.conf"


def _daemons(folder: Path) -> list[list[str]]:
    config = str(folder / "slurm.conf")
    files = {"key": "munge.key", "socket": "munge.sock", "pid": "munge.pid", "seed": "munge.seed"}
    options = {
        "key": "--key-file",
        "socket": "--socket",
        "pid": "--pid-file",
        "seed": "--seed-file",
    }
    munge = [f"{options[each]}={folder / name}" for each, name in files.items()]
    return [
        [_program("munged"), "--foreground", "--force", *munge],
        [_program("slurmctld"), "-D", "-f", config],
        *([_program("slurmd"), "-D", "-f", config, "-N", node] for node in NODES),
    ]


def _program(name: str) -> str:
    """Return the path of a daemon: a user's PATH may lack the folders of root's programs."""
    found = shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
    assert found, f"{name} is not installed; run: make slurm"
    return found


def _start(words: list[str], folder: Path) -> subprocess.Popen[bytes]:
    with (folder / f"{Path(words[0]).name}.out").open("ab") as out:
        process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=out, stderr=out, preexec_fn=with_parent
        )
    if "munged" in words[0]:
        until(folder / "munge.sock")
    return process


def until(file: Path) -> None:
    """Wait until there is a file."""
    end = time.monotonic() + START_SECONDS
    while not file.exists():
        assert time.monotonic() < end, file
        time.sleep(0.05)


def until_dead(pid: int) -> None:
    """Wait until a process has ended; its parent may not have noticed yet."""
    end = time.monotonic() + 15
    while "State:\tZ" not in (status := _status(pid)) and status:
        assert time.monotonic() < end, status
        time.sleep(0.1)


def _status(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def _until_answered(slurm: Slurm) -> None:
    end = time.monotonic() + START_SECONDS
    while subprocess.run(["sinfo"], capture_output=True).returncode != 0:
        assert time.monotonic() < end, slurm.logs()
        time.sleep(0.1)


def _cancel() -> None:
    """End every job, before the daemons that know of it."""
    subprocess.run(["scancel", f"--user={getuser()}"], capture_output=True, timeout=30)
    end = time.monotonic() + 15
    while time.monotonic() < end:
        done = subprocess.run(["squeue", "-h"], capture_output=True, text=True, timeout=30)
        if not done.stdout.strip():
            return
        time.sleep(0.2)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()

"""Processes that keep a node from a reboot: those of users, and not their shells or services."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gpu_node.deploy.engine.scripts import text
from gpu_node.facts.probe.process import PROCESS
from gpu_node.facts.probe.redaction import AWK
from tests.node_scripts import environment, until
from tests.shells import SHELLS

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="processes of other users are needed")
USER = 54_321
# What stands in front of the script.
HIDE = f"gn_hide={shlex.quote(AWK)}\ngn_process={shlex.quote(PROCESS)}\n"


@contextmanager
def running(*words: str, user: int = USER) -> Iterator[int]:
    """A process of a user, in a session of its own as behind nohup."""
    with subprocess.Popen(
        words, user=user, group=user, stdin=subprocess.PIPE, start_new_session=True
    ) as process:
        try:
            yield process.pid
        finally:
            process.kill()


@contextmanager
def terminal() -> Iterator[int]:
    """The terminal's side of a pair."""
    ours, theirs = os.openpty()
    try:
        yield theirs
    finally:
        os.close(ours)
        os.close(theirs)


def refused(shell: str, trainer: str = "root", allow: str = "no") -> str:
    """Run the check; return the refusal, or nothing."""
    texts = "\n".join(map(text, ("containers", "boot_ends", "in_use")))
    given = f"allow={allow} trainer={trainer} holders='' disturbs=reboot"
    script = f"{HIDE}{given}\n{texts}\necho goes on"
    argv = [*SHELLS[shell], "-c", script]
    done = subprocess.run(argv, env=environment(shell), capture_output=True, text=True)
    assert (done.returncode, done.stdout) in ((0, "goes on\n"), (1, "")), done.stderr
    return done.stderr


def test_a_users_job_is_named(shell: str) -> None:
    """A job on the CPU has no GPU and no libnccl."""
    with running("sleep", "60") as pid:
        assert f"pid {pid} ({USER}: sleep 60)" in refused(shell)
        assert refused(shell, allow="yes") == ""


def test_a_users_shell_is_no_job(shell: str) -> None:
    path = shutil.which("bash")
    assert path is not None
    with running(path, "-c", "read -r line") as pid:
        assert f"pid {pid} " not in refused(shell)


def test_a_program_of_a_shells_name_is_a_job(shell: str, tmp_path: Path) -> None:
    """Only what is in the system's folders counts as a shell."""
    folder = Path("/var/tmp") / f"gpu-node-test-{os.getpid()}-{shell}"
    folder.mkdir()
    try:
        shutil.copy("/bin/sleep", folder / "bash")
        with running(str(folder / "bash"), "60") as pid:
            assert f"pid {pid} " in refused(shell)
    finally:
        shutil.rmtree(folder)


def test_a_service_is_no_job(shell: str) -> None:
    """A user id below UID_MIN belongs to the system, and that of `nobody` to services."""
    for user in (33, 65534):
        with running("sleep", "60", user=user) as pid:
            assert f"pid {pid} " not in refused(shell)


def test_a_process_that_has_ended_is_no_job(shell: str) -> None:
    """Of those that come and go while the processes are looked at nothing is known."""
    endless = ["bash", "-c", "while :; do true | true | true | true; done"]
    with running(*endless):
        assert "(: )" not in refused(shell)


def test_a_job_of_root_on_a_terminal(shell: str) -> None:
    """Where root trains; services of root, and threads of the kernel, are none."""
    with terminal() as line, running("sleep", "61", user=0) as service:
        argv = ["setsid", "--ctty", "sleep", "60"]
        with subprocess.Popen(argv, stdin=line, stdout=line, stderr=line) as job:
            try:
                begun = Path(f"/proc/{job.pid}/cmdline")
                assert until(lambda: begun.read_bytes() == b"sleep\x0060\x00")
                printed = refused(shell)
            finally:
                job.kill()
        assert f"pid {job.pid} (root: sleep 60)" in printed
        assert f"pid {service} " not in printed
        assert "kworker" not in printed and "getty" not in printed


def test_the_keeper_of_slurms_cgroup_is_no_job(shell: str) -> None:
    """With cgroup v2 slurmd starts it once, and it never ends."""
    folder = Path("/var/tmp") / f"gpu-node-slurm-{os.getpid()}-{shell}"
    folder.mkdir()
    try:
        step = shutil.copy("/bin/sleep", folder / "slurmstepd")
        with running(str(step), "infinity", user=0) as pid:
            assert f"pid {pid} " not in refused(shell)
        with running(str(step), "60", user=0) as pid:
            assert f"pid {pid} (root: {step} 60)" in refused(shell)
    finally:
        shutil.rmtree(folder)


def test_a_trainer_of_any_id_has_jobs(shell: str) -> None:
    with running("sleep", "60", user=1) as pid:
        assert f"pid {pid} (" in refused(shell, trainer="daemon")

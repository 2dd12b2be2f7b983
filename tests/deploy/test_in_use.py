"""Who uses a GPU or NCCL while a script changes something: each process but the harmless ones."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpu_node.deploy.engine import scripts
from gpu_node.facts.probe.process import PROCESS
from gpu_node.facts.probe.redaction import AWK
from tests.node_scripts import environment
from tests.shells import SHELLS

# What stands in front of the script.
HIDE = f"gn_hide={shlex.quote(AWK)}\ngn_process={shlex.quote(PROCESS)}\ndisturbs=libraries\n"
JOB = """
import mmap, time
file = open({!r}, "r+b")
mapped = mmap.mmap(file.fileno(), 0)
print(flush=True)
time.sleep(600)
"""


@pytest.fixture
def job(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that has a libnccl mapped."""
    library = tmp_path / "libnccl.so.2"
    library.write_bytes(bytes(4096))
    words = [sys.executable, "-c", JOB.format(str(library))]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, start_new_session=True) as job:
        assert job.stdout is not None and job.stdout.readline() == "\n"
        yield job
        job.kill()


def refused(shell: str, holders: str, allow: str = "no") -> str:
    """Run the check with these harmless programs; return the refusal, or nothing."""
    script = f"{HIDE}allow={allow} holders='{holders}'\n{scripts.text('in_use')}\necho changed"
    argv = [*SHELLS[shell], "-c", script]
    done = subprocess.run(argv, env=environment(shell), capture_output=True, text=True)
    assert (done.returncode, done.stdout) in ((0, "changed\n"), (1, ""))
    return done.stderr


def test_a_job_is_named(job: subprocess.Popen[str], shell: str) -> None:
    """A program of the table's name at another path is a job as well."""
    name = Path(sys.executable).name
    for holders in ("", f"/opt/{name}", f"{os.path.realpath(sys.executable)}x"):
        refusal = refused(shell, holders)
        # Other programs of this machine may have a libnccl mapped as well.
        assert "in use by pid " in refusal and f"pid {job.pid} (" in refusal
    assert refused(shell, "", allow="yes") == ""


def test_a_program_of_the_table_is_harmless(job: subprocess.Popen[str], shell: str) -> None:
    path = os.path.realpath(f"/proc/{job.pid}/exe")
    assert f"pid {job.pid} " not in refused(shell, f"/usr/bin/other\n{path}")


def test_a_program_is_known_after_its_package_was_replaced(tmp_path: Path, shell: str) -> None:
    """The kernel shows its path as `PATH (deleted)`."""
    program, library = tmp_path / "daemon", tmp_path / "libnccl.so.2"
    program.write_bytes(Path("/bin/sleep").read_bytes())
    program.chmod(0o755)
    library.write_bytes(bytes(4096))
    holds = f"exec 7<{library}; exec {program} 60"
    with subprocess.Popen(["sh", "-c", holds], start_new_session=True) as daemon:
        while os.readlink(f"/proc/{daemon.pid}/exe") != str(program):
            pass
        program.unlink()
        answer = is_harmless(shell, daemon.pid, str(program))
        other = is_harmless(shell, daemon.pid, f"{program}2")
        daemon.kill()
    assert (answer, other) == (True, False)


def is_harmless(shell: str, pid: int, holders: str) -> bool:
    """Ask the function of the script."""
    script = (
        f"{HIDE}allow=yes holders='{holders}'\n{scripts.text('in_use')}\nis_harmless /proc/{pid}"
    )
    done = subprocess.run([*SHELLS[shell], "-c", script], env=environment(shell), check=False)
    return done.returncode == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="another user's process is needed")
def test_what_cannot_be_read_counts_as_in_use(job: subprocess.Popen[str], shell: str) -> None:
    """A user without root does not see what a process of root has open."""
    script = f"{HIDE}allow=no holders=''\n{scripts.text('in_use')}\necho changed"
    argv = [*SHELLS[shell], "-c", script]
    env = environment(shell)
    done = subprocess.run(argv, env=env, capture_output=True, text=True, user=65534, group=65534)
    assert (done.returncode, done.stdout) == (1, "")
    assert ", which cannot be read" in done.stderr


def test_the_table_names_paths_and_steps() -> None:
    """Nothing but what is stopped and started again may hold a GPU when the module is reloaded."""
    assert scripts.harmless_holders("module") == ("/usr/bin/nvidia-persistenced",)
    for name in (name for name in scripts.FILES if "in_use" in scripts.needed(name)):
        assert all(path.startswith("/usr/") for path in scripts.harmless_holders(name))
    assert not [path for path in scripts.harmless_holders("reboot") if "Xorg" in path]

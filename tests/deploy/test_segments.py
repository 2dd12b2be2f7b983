"""Segments that are left over go, and no others: found and removed really, by each kind of sh."""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from pyinfra.api import StringCommand

from gpu_node.deploy.engine.scripts import script
from gpu_node.facts.probe.process import PROCESS
from gpu_node.facts.shm.segments import LOOK, USE, Use, parse
from tests.node_scripts import Ended, environment, run, run_apart, until
from tests.shells import SHELLS

# The kernel gives no pid above 4194304.
DEAD, ALIVE = 999_999_999, os.getpid()
# nccl-again: a deleted file of this name is open in a process. torch_PID_*: PyTorch's file_system
# sharing closes the file at once, and the memory may be unmapped while it waits in a queue.
GONE = ("nccl-again", "nccl-stale", "sem.mp-stale", f"torch_{DEAD}_2", f"torch_{DEAD}_77_1")
LIVE = ("nccl-open", "nccl-mapped", f"torch_{ALIVE}_2", f"torch_{ALIVE}_77_1")
OTHERS = (
    *("psm_8d1c", "nccl", "nccl with a blank", "nccl-'quoted'", "sem", "sem.a-users", "sem.mpx"),
    *("torch_", "torch_shm", "torch_12ab_3", f"torch_{DEAD}"),
)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """A folder of segments: one open, one mapped, a new one of a deleted one's name, and others."""
    place = tmp_path / "shm"
    (place / "nccl-folder").mkdir(parents=True)
    kernels = [f"__KMP_REGISTERED_LIB_{pid}_0" for pid in (DEAD, ALIVE)]
    for name in (*GONE, *LIVE, *OTHERS, *kernels):
        (place / name).write_bytes(b"segment")
        os.utime(place / name, (1_700_000_000, 1_700_000_000))
    (place / "nccl-link").symlink_to("nccl-stale")
    with ExitStack() as held:
        held.enter_context((place / "nccl-open").open("rb"))
        held.enter_context((place / "nccl-again").open("rb"))
        with (place / "nccl-mapped").open("rb") as file:
            held.enter_context(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        (place / "nccl-again").unlink()
        (place / "nccl-again").write_bytes(b"another")
        yield place


def use(place: Path, shell: str) -> Use:
    """What the probe's section says of a folder in the place of /dev/shm."""
    argv = [*SHELLS[shell], "-c", USE.command]
    env = {**environment(shell), "place": str(place)}
    return parse(subprocess.run(argv, env=env, capture_output=True, text=True, check=True).stdout)


def command(place: Path, lines: list[str], look: str = LOOK, allow: str = "yes") -> StringCommand:
    """The script that removes what these lines name."""
    return script("segments", "\n".join(lines), look=look, place=str(place), allow=allow)


def removed(place: Path, shell: str, lines: list[str]) -> Ended:
    """Run that script."""
    return run(command(place, lines), shell)


def line(path: Path) -> str:
    """Return a file as the script receives it."""
    found = path.stat()
    return f"{found.st_ino} {int(found.st_mtime)} {path.name}"


UNUSED = {*GONE, f"__KMP_REGISTERED_LIB_{DEAD}_0"}


def test_what_is_unused(place: Path, shell: str) -> None:
    """Neither what is open or mapped, nor what is not a segment by its name and kind."""
    found = use(place, shell)
    assert {each.name for each in found.unused} == UNUSED
    (stale,) = [each for each in found.unused if each.name == "nccl-stale"]
    assert f"{stale.inode} {stale.modified} {stale.name}" == line(place / "nccl-stale")
    assert (stale.size, stale.mode, stale.uid) == (7, "644", os.getuid())


def test_what_is_removed(place: Path, shell: str) -> None:
    """All unused ones of the request; one in use now is reported and stays, as all others do."""
    before = {path.name for path in place.iterdir()}
    asked = [line(place / name) for name in (*GONE, *LIVE, "psm_8d1c", "sem.a-users", "torch_shm")]
    done = removed(place, shell, asked)
    assert (done.code, done.err) == (0, "")
    assert {path.name for path in place.iterdir()} == before - {*GONE}
    assert {each.removeprefix("kept ") for each in done.out.splitlines()} == {*LIVE}


# A process among pids of its own, whose pid there is no process's out here.
NAMESPACE = """
unshare --pid --fork sh -c 'until sh -c "[ -e /proc/\\$\\$ ] && exit 1
  echo \\$\\$ >$0; exec sleep 20"; do :; done' {file} <&- >&- 2>&- &
until [ -s {file} ]; do sleep 0.1; done
mv {place}/torch_X_7 {place}/torch_$(cat {file})_7"""


def test_a_pid_of_a_container(tmp_path: Path, shell: str) -> None:
    """The name has the pid that the container knows: that process is alive, so the file stays."""
    place, file = tmp_path / "shm", tmp_path / "pid"
    place.mkdir()
    (place / "torch_X_7").write_bytes(b"segment")
    inode, modified, _ = line(place / "torch_X_7").split()
    asked = [f"{inode} {modified} torch_{pid}_7" for pid in range(1, 40_000)]
    done = run_apart(
        command(place, asked), shell, NAMESPACE.format(file=file, place=place), ["kill $!"]
    )
    assert (done.code, done.err) == (0, "")
    assert done.out == f"kept torch_{file.read_text().strip()}_7\n"


def test_where_pids_of_containers_are_unknown(place: Path, shell: str) -> None:
    """Before Linux 4.1 any pid in a name may be a container's: what has one stays."""
    look = f"{LOOK}\nhas_unknown_pids() {{ :; }}"
    done = run(command(place, [line(place / name) for name in GONE], look), shell)
    assert (done.code, done.err) == (0, "")
    assert set(done.out.split()) == {"kept", f"torch_{DEAD}_2", f"torch_{DEAD}_77_1"}


JOB = "import mmap, sys, time; a = open(sys.argv[1], 'rb'); b = mmap.mmap(a.fileno(), 0, access=1)"


@pytest.mark.parametrize("allow", ["no", "yes"])
def test_while_a_job_runs(tmp_path: Path, shell: str, allow: str) -> None:
    """A process that has a libnccl mapped is named and nothing is removed, until it is allowed."""
    (tmp_path / "libnccl.so.2").write_bytes(b"library")
    (tmp_path / "nccl-stale").write_bytes(b"segment")
    words = [sys.executable, "-c", f"{JOB}; print(1, flush=True); time.sleep(60)"]
    words.append(str(tmp_path / "libnccl.so.2"))
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, start_new_session=True) as job:
        assert job.stdout is not None and job.stdout.readline() == "1\n"
        asked = command(tmp_path, [line(tmp_path / "nccl-stale")], allow=allow)
        done = run(asked, shell)
        job.kill()
    assert (tmp_path / "nccl-stale").exists() == (allow == "no")
    assert done.code == (1 if allow == "no" else 0)
    if allow == "no":
        assert f"pid {job.pid} (" in done.err and "--data allow_disruption=true" in done.err


def test_another_file_of_the_name_stays(place: Path, shell: str) -> None:
    """It has another inode, or was written to since: no rule has judged it."""
    inode, modified, _ = line(place / "nccl-stale").split()
    done = removed(place, shell, [f"{inode} {int(modified) - 1} nccl-stale", "1 2 sem.mp-stale"])
    assert (done.code, done.out, done.err) == (0, "", "")
    assert (place / "nccl-stale").exists() and (place / "sem.mp-stale").exists()


@pytest.mark.parametrize("time", [-1, -2_000_000_000])
def test_a_time_before_1970(place: Path, shell: str, time: int) -> None:
    """Any user can set it: what the probe reports is what the removal compares."""
    os.utime(place / "nccl-stale", (time, time))
    found = [each for each in use(place, shell).unused if each.name == "nccl-stale"]
    lines = [f"{each.inode} {each.modified} {each.name}" for each in found]
    done = removed(place, shell, lines)
    assert (len(found), done.code, done.out, done.err) == (1, 0, "", "")
    assert not (place / "nccl-stale").exists()


def test_nothing_to_remove(place: Path, shell: str) -> None:
    """An orphan that was to leave some has left none."""
    before = set(place.iterdir())
    assert removed(place, shell, []).code == 0
    assert set(place.iterdir()) == before


def test_a_place_that_is_not_there(tmp_path: Path, shell: str) -> None:
    """It is reported, and nothing else is done."""
    done = removed(tmp_path / "none", shell, ["1 2 nccl-stale"])
    assert done.code == 1
    assert "cannot be listed" in done.err


def test_a_container_sees_it_at_another_path(tmp_path: Path, shell: str) -> None:
    """A process among mounts of its own has the file open at a path that is nowhere else."""
    (tmp_path / "shm").mkdir()
    (tmp_path / "elsewhere").mkdir()
    for name in ("nccl-theirs", "nccl-unowned"):
        (tmp_path / "shm" / name).write_bytes(b"segment")
    theirs = tmp_path / "elsewhere" / "nccl-theirs"
    before = f"""
mount --bind {tmp_path}/shm {tmp_path}/elsewhere
exec 7<{theirs}
unshare --mount sh -c 'umount {tmp_path}/shm 2>/dev/null; exec sleep 20' <&7 7<&- >&- 2>&- &
exec 7<&-
umount -l {tmp_path}/elsewhere"""
    lines = [line(tmp_path / "shm" / name) for name in ("nccl-theirs", "nccl-unowned")]
    done = run_apart(command(tmp_path / "shm", lines), shell, before, ["kill $!"])
    assert (done.code, done.out) == (0, "kept nccl-theirs\n")
    assert [path.name for path in (tmp_path / "shm").iterdir()] == ["nccl-theirs"]


def test_thousands(tmp_path: Path, shell: str) -> None:
    """One pass over them all: no process for each file."""
    for number in range(3000):
        (tmp_path / f"nccl-{number}").touch()
    assert len(use(tmp_path, shell).unused) == 3000
    assert removed(tmp_path, shell, [line(path) for path in tmp_path.iterdir()]).code == 0
    assert not list(tmp_path.iterdir())


TRAINER = """
import os, subprocess, sys, time
if "worker" not in sys.argv:
    subprocess.Popen([sys.executable, "-c", open("/proc/self/cmdline").read().split(chr(0))[2],
                      "worker"])
os.write(1, b"started\\n")  # at once: the worker writes to the same pipe
time.sleep(60)
"""


@pytest.fixture
def trainer() -> Iterator[subprocess.Popen[str]]:
    """A process that has started another, which waits as it does."""
    argv = [sys.executable, "-c", TRAINER]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(2)] == ["started\n"] * 2
        yield process
        process.kill()


def stat(pid: int) -> list[str]:
    """The fields of a process behind its name: state, parent and so on."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()


def children(pid: int) -> list[int]:
    """The processes that a process has started."""
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_a_trainer_ends_with_its_workers(trainer: subprocess.Popen[str], shell: str) -> None:
    """TERM reaches both; the pid, its start and its parent are all as they were found."""
    (worker,) = children(trainer.pid)
    printed = f"{trainer.pid} {stat(trainer.pid)[19]} {os.getpid()}"
    done = run(script("trainers", printed, gn_process=PROCESS), shell)
    assert (done.code, done.err) == (0, "")
    assert trainer.wait(5) == -15
    assert until(lambda: not Path(f"/proc/{worker}").exists() or stat(worker)[0] == "Z")


# How often the processes can be listed: before the first signal, and while it is waited for.
@pytest.mark.parametrize("times", [0, 1, 2])
def test_processes_that_cannot_be_listed(
    trainer: subprocess.Popen[str], shell: str, times: int, tmp_path: Path
) -> None:
    """That a process is not seen is no sign that it has ended."""
    (tmp_path / "times").write_text("x" * times)
    listing = f"""
    xargs() {{
      [ -s {tmp_path}/times ] || return 127
      left=$(head -c -1 {tmp_path}/times); printf '%s' "$left" >{tmp_path}/times
      command xargs "$@"
    }}
    """
    lines = f"{trainer.pid} {stat(trainer.pid)[19]} {os.getpid()}"
    done = run(script("trainers", lines, gn_process=f"{listing}\n{PROCESS}"), shell)
    assert (done.code, "the processes cannot be listed" in done.err) == (1, True)
    assert (str(trainer.pid) in done.err) is (times > 0)
    if times < 2:
        assert trainer.poll() is None
    else:
        assert trainer.wait(5) == -15


@pytest.mark.parametrize("wrong", [0, 1], ids=["start", "parent"])
def test_another_process_of_the_pid_stays(
    trainer: subprocess.Popen[str], shell: str, wrong: int
) -> None:
    """A pid that another process has now is not touched."""
    facts = [int(stat(trainer.pid)[19]), os.getpid()]
    facts[wrong] += 1
    done = run(
        script("trainers", f"{trainer.pid} {facts[0]} {facts[1]}", gn_process=PROCESS), shell
    )
    assert (done.code, done.err) == (0, "")
    assert trainer.poll() is None


# Starts a process whose name, as a line of /proc/PID/stat, looks like that of another pid.
FORGER = """
import ctypes, os, sys, time
if os.fork() == 0:
    ctypes.CDLL(None).prctl(15, b"x\\n" + sys.argv[1].encode() + b" (", 0, 0, 0)
    print(flush=True)
time.sleep(60)
"""


def test_a_name_puts_no_other_process_below_a_trainer(shell: str) -> None:
    """The name of a worker is not the pid of a victim."""
    with subprocess.Popen(["sleep", "60"]) as victim:
        words = [sys.executable, "-c", FORGER, str(victim.pid)]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as trainer:
            assert trainer.stdout is not None and trainer.stdout.readline() == "\n"
            (worker,) = children(trainer.pid)
            lines = f"{trainer.pid} {stat(trainer.pid)[19]} {os.getpid()}"
            done = run(script("trainers", lines, gn_process=PROCESS), shell)
            assert (done.code, done.err) == (0, "")
            assert trainer.wait(5) == -15
            assert until(lambda: not Path(f"/proc/{worker}").exists() or stat(worker)[0] == "Z")
        assert victim.poll() is None
        victim.kill()


@pytest.mark.skipif(os.geteuid() != 0, reason="another user's file is needed")
@pytest.mark.parametrize("kinds", [("torch_{}_2", "torch_{}_8"), ("__KMP_REGISTERED_LIB_{}_1",)])
def test_the_pid_of_another_users_process(
    tmp_path: Path, shell: str, kinds: tuple[str, ...]
) -> None:
    """It is neither in use nor unused, and never removed; one of the process's user is in use."""
    with subprocess.Popen(["sleep", "60"], user=2, group=2, extra_groups=[]) as process:
        names = [kind.format(process.pid) for kind in kinds]
        for name, uid in zip(names, (1, 2), strict=False):
            (tmp_path / name).write_bytes(b"segment")
            os.chown(tmp_path / name, uid, uid)
        found = use(tmp_path, shell)
        done = removed(tmp_path, shell, [line(tmp_path / name) for name in names])
        process.kill()
    (taken,) = found.taken
    assert (taken.segment.name, taken.segment.uid, taken.uid) == (names[0], 1, 2)
    assert (found.unused, {each.name for each in tmp_path.iterdir()}) == ((), {*names})
    assert done.code == 0

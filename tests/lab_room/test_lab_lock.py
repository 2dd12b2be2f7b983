"""Two lab commands at once: the second waits and prints that; a killed one leaves no lock."""

import fcntl
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from gpu_node.cli.lab import lab
from gpu_node.lab import life, lock, nodes, prerequisites, roster
from gpu_node.lab.errors import LabError

HOLD = """
import sys, time
from pathlib import Path
from gpu_node.lab import lock
lock.file = lambda: Path(sys.argv[2])
with lock.held():
    print("held", flush=True)
    time.sleep(float(sys.argv[1]))
"""


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(lock, "file", lambda: tmp_path / "gpu_node.lab.lock")
    return tmp_path / "gpu_node.lab.lock"


def holder(place: Path, seconds: float) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(seconds), str(place)],
        cwd=roster.REPOSITORY,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    with process.stdout as output:
        assert output.readline() == "held\n"
    return process


def test_the_second_waits_and_says_so(place: Path, capfd: pytest.CaptureFixture[str]) -> None:
    first = holder(place, 0.5)
    with lock.held():
        assert first.wait(timeout=5) == 0
    expected = f"lab: another lab command is running (pid {first.pid}); waiting\n"
    assert capfd.readouterr().err == expected


def test_who_is_waited_for_may_be_unknown(
    place: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the kernel lists no locks, the pid is left out."""
    monkeypatch.setattr(lock, "LOCKS", place.with_name("nothing"))
    first = holder(place, 0.5)
    with lock.held():
        assert first.wait(timeout=5) == 0
    assert capfd.readouterr().err == "lab: another lab command is running; waiting\n"


def test_of_the_locks_of_a_machine_only_ours_counts(place: Path) -> None:
    """Not a waiting process, nor the holder of another file; an invisible holder has no pid."""
    place.touch()
    at = place.stat()
    ours = f"{os.major(at.st_dev):02x}:{os.minor(at.st_dev):02x}:{at.st_ino}"
    others = (
        f"1: FLOCK  ADVISORY  WRITE 11 {ours}1 0 EOF\n"
        f"2: POSIX  ADVISORY  WRITE 12 {ours} 0 EOF\n"
        f"3: FLOCK  ADVISORY  WRITE 0 {ours} 0 EOF\n"
        f"3: -> FLOCK  ADVISORY  WRITE 13 {ours} 0 EOF\n"
    )
    assert lock.holder(at, others) == ""
    assert lock.holder(at, others + f"4: FLOCK  ADVISORY  WRITE 14 {ours} 0 EOF\n") == "14"


def test_a_dead_holder_is_not_waited_for(place: Path, capfd: pytest.CaptureFixture[str]) -> None:
    first = holder(place, 60)
    first.kill()
    first.wait()
    start = time.monotonic()
    with lock.held():
        pass
    assert time.monotonic() - start < 30
    assert capfd.readouterr().err == ""


def test_within_it_may_be_asked_for_again() -> None:
    with lock.held(), lock.held():
        pass
    with lock.held():
        pass


def test_it_is_let_go_after_an_error(place: Path) -> None:
    @lock.alone
    def fails() -> None:
        raise LabError("no")

    with pytest.raises(LabError, match="no"):
        fails()
    assert holder(place, 0).wait(timeout=5) == 0


def test_what_it_starts_does_not_go_on_holding_it(place: Path) -> None:
    """Containers outlive the command that started them."""
    with lock.held():
        child = subprocess.Popen(["sleep", "60"], close_fds=False)
    try:
        with place.open() as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        child.kill()
        child.wait()


def test_every_user_may_wait_whatever_the_umask_of_the_first(place: Path) -> None:
    before = os.umask(0o077)
    try:
        with lock.held():
            pass
    finally:
        os.umask(before)
    assert place.stat().st_mode & 0o777 == 0o644


@contextmanager
def no_root() -> Iterator[None]:
    """Act as a user without root's rights."""
    if os.getuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_root_makes_the_file_where_a_user_may_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """On some systems only root may write to /run/lock."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "gpu_node.lab.lock")

        def as_root(argv: Sequence[str | Path]) -> None:
            os.seteuid(os.getuid())
            Path(folder).chmod(0o755)
            subprocess.run(argv, check=True)

        monkeypatch.setattr(lock, "file", lambda: path)
        monkeypatch.setattr(lock, "as_root", as_root)
        Path(folder).chmod(0o555)
        with no_root(), lock.held():
            pass
        assert path.stat().st_mode & 0o777 == 0o644


def test_a_place_that_is_not_there_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock, "file", lambda: tmp_path / "none" / "gpu_node.lab.lock")
    with pytest.raises(LabError, match=r"lab\.lock cannot be opened: No such file"), lock.held():
        pass


@pytest.mark.parametrize("command", [["up"], ["down"], ["reset"], ["break", "nothing-wrong"]])
def test_each_command_that_changes_the_lab_takes_it(
    command: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits first: another command may be changing what it would check."""
    monkeypatch.setattr(lock, "_lock", refuse)
    for place, name in [(life, "as_root"), (nodes, "require_up"), (prerequisites, "which")]:
        monkeypatch.setattr(place, name, lambda *_: pytest.fail("began without the lab"))
    result = CliRunner().invoke(lab, command)
    assert (result.exit_code, result.output) == (1, "Error: found another command has the lab\n")


@pytest.mark.parametrize(
    "command", [["status"], ["reset", "nosuch"], ["break"], ["break", "nosuch"]]
)
def test_reading_and_refused_commands_do_not_wait(
    command: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock, "_lock", refuse)
    monkeypatch.setattr(nodes, "status", nodes.all_absent)
    assert "another command has" not in CliRunner().invoke(lab, command).output


def refuse(descriptor: int) -> None:
    """Act as a lab that is never released."""
    raise LabError("another command has the lab")


def test_another_lab_has_a_lock_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    one = lock.file()
    monkeypatch.setattr(roster, "NETWORK", "another-lab")
    assert lock.file() != one

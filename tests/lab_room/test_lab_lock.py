"""Two lab commands at once: the second waits and prints that; a killed one leaves no lock."""

import fcntl
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from gpu_node.cli.lab import lab
from gpu_node.lab import life, lock, nodes, prerequisites, roster
from gpu_node.lab.errors import LabError

HOLD = """
import os, sys, time
from pathlib import Path
from gpu_node.lab import lock
os.umask(0o077)
lock.file = lambda: Path(sys.argv[1])
with lock.held():
    print("held", flush=True)
    sys.stdin.read()
    time.sleep(0.2)
    Path(sys.argv[1] + ".ended").touch()
"""


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(lock, "file", lambda: tmp_path / "gpu_node.lab.lock")
    return tmp_path / "gpu_node.lab.lock"


@contextmanager
def holder(place: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that holds the lock until its stdin is closed."""
    command = [sys.executable, "-c", HOLD, str(place)]
    with subprocess.Popen(
        command, cwd=roster.REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process


def test_the_second_waits_and_prints_that(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with holder(place) as first:
        printed: list[str] = []

        def ends_the_first(line: str, **_: object) -> None:
            printed.append(line)
            assert first.stdin is not None
            first.stdin.close()

        monkeypatch.setattr("builtins.print", ends_the_first)
        with lock.held():
            assert place.with_name(f"{place.name}.ended").exists()
    # Every user may wait.
    assert place.stat().st_mode & 0o777 == 0o644
    assert printed == [f"lab: another lab command is running (pid {first.pid}); waiting"]


def test_what_is_built_beside_the_lab_waits_for_no_lab_command(
    place: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with holder(place) as first, lock.held("launcher-"), lock.held("launcher-"):
        assert first.poll() is None
    assert capfd.readouterr().err == ""


def test_a_dead_holder_is_not_waited_for(place: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with holder(place) as first:
        first.kill()
        first.wait()
        with lock.held():
            assert capfd.readouterr().err == ""


def test_it_is_free_after_the_outermost_body_and_after_an_error(place: Path) -> None:
    """Containers that outlive the command do not go on holding it."""

    @lock.alone
    def fails() -> None:
        raise LabError("no")

    with lock.held():
        with lock.held():
            child = subprocess.Popen(["sleep", "60"], close_fds=False)
        with place.open() as file, pytest.raises(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    with pytest.raises(LabError, match="no"):
        fails()
    try:
        with place.open() as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        child.kill()
        child.wait()


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
        if os.getuid() == 0:
            os.seteuid(65534)
        try:
            with lock.held():
                pass
        finally:
            os.seteuid(os.getuid())
        assert path.stat().st_mode & 0o777 == 0o644


def refuse(descriptor: int) -> None:
    """Act as a lab that is never released."""
    raise LabError("another command has the lab")


@pytest.mark.parametrize(
    ("command", "takes_it"),
    [
        *((words, True) for words in (["up"], ["down"], ["reset"], ["break", "nothing-wrong"])),
        *((words, False) for words in (["status"], ["reset", "nosuch"], ["break"])),
    ],
)
def test_a_command_that_changes_the_lab_takes_it(
    command: list[str], takes_it: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits first: another command may be changing what it would check."""
    monkeypatch.setattr(lock, "_lock", refuse)
    monkeypatch.setattr(nodes, "status", nodes.all_absent)
    if takes_it:
        for module, name in [(life, "as_root"), (nodes, "require_up"), (prerequisites, "which")]:
            monkeypatch.setattr(module, name, lambda *_: pytest.fail("began without the lab"))
    result = CliRunner().invoke(lab, command)
    assert (result.output == "Error: found another command has the lab\n") == takes_it

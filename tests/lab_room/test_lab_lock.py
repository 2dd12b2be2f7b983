"""Two lab commands at once: the second waits, says so, and a killed one leaves nothing behind."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from lab import lock, roster
from lab.errors import LabError

HOLD = """
import sys, time
from pathlib import Path
from lab import lock
lock.file = lambda: Path(sys.argv[2])
with lock.held():
    print("held", flush=True)
    time.sleep(float(sys.argv[1]))
"""


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(lock, "file", lambda: tmp_path / "lab.lock")
    return tmp_path / "lab.lock"


def holder(place: Path, seconds: float) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(seconds), str(place)],
        cwd=roster.REPOSITORY,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_the_second_waits_and_says_so(place: Path, capfd: pytest.CaptureFixture[str]) -> None:
    first = holder(place, 0.5)
    with lock.held():
        assert first.wait(timeout=5) == 0
    assert capfd.readouterr().err == "lab: waiting for another lab command to end\n"


def test_nobody_waits_for_the_dead(place: Path, capfd: pytest.CaptureFixture[str]) -> None:
    first = holder(place, 60)
    first.kill()
    first.wait()
    start = time.monotonic()
    with lock.held():
        pass
    assert time.monotonic() - start < 5
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


def test_a_place_that_cannot_be_written_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock, "file", lambda: tmp_path / "none" / "lab.lock")
    with pytest.raises(LabError, match=r"lab\.lock cannot be made: No such file"), lock.held():
        pass


def test_another_lab_has_a_lock_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    one = lock.file()
    monkeypatch.setattr(roster, "NETWORK", "another-lab")
    assert lock.file() != one

"""What a killed run leaves of a virtual machine is cleared away, and nothing else is."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from lab import roster
from lab.kernel import machine


@pytest.fixture
def left(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Return the folder of a machine in a clone of its own."""
    monkeypatch.setattr(roster, "STATE", tmp_path)
    machine.home("k-01").mkdir(parents=True)
    return machine.home("k-01")


def sleeper(left: Path, *words: str) -> subprocess.Popen[bytes]:
    """Start a process whose pid the machine's file names."""
    process = subprocess.Popen(
        ["sh", "-c", "echo; read forever", *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    process.stdout.readline()  # before that, /proc may show no command line yet
    (left / "qemu.pid").write_text(f"{process.pid}\n")
    return process


def test_an_orphan_is_stopped_and_its_disk_deleted(left: Path) -> None:
    """Nobody holds the lock, and the command line is qemu's own."""
    with sleeper(left, "-pidfile", str(left / "qemu.pid")) as orphan:
        machine.clear()
        assert orphan.wait(10) == -9
    assert not left.exists()


def test_a_pid_that_is_somebody_elses_by_now_is_left_alone(left: Path) -> None:
    """The number came round: the process that has it knows nothing of the machine."""
    with sleeper(left) as stranger:
        machine.clear()
        assert stranger.poll() is None
        stranger.kill()
    assert not left.exists()


def test_a_machine_in_use_is_left_alone(left: Path) -> None:
    """Whoever started it lives, and holds the lock."""
    lock = machine.taken("k-01")
    assert lock is not None
    with lock, sleeper(left, "-pidfile", str(left / "qemu.pid")) as running:
        machine.clear()
        assert running.poll() is None
        running.kill()
    assert left.exists()

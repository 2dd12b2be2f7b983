"""Only what a killed run left of a virtual machine is removed."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from gpu_node.lab import roster
from gpu_node.lab.kernel import machine


@pytest.fixture
def left(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Return the folder of a machine in a separate clone."""
    monkeypatch.setattr(roster, "STATE", tmp_path)
    machine.home("k-01").mkdir(parents=True)
    return machine.home("k-01")


def sleeper(left: Path, *words: str) -> subprocess.Popen[bytes]:
    """Start a process whose pid is in the machine's file."""
    process = subprocess.Popen(
        ["sh", "-c", "echo; read forever", *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    process.stdout.readline()  # before that, /proc may show no command line yet
    (left / "qemu.pid").write_text(f"{process.pid}\n")
    return process


def test_an_orphan_is_stopped_and_its_disk_deleted(left: Path) -> None:
    """No process holds the lock, and the command line is that of qemu."""
    with sleeper(left, "-pidfile", str(left / "qemu.pid")) as orphan:
        machine.clear()
        assert orphan.wait(10) == -9
    assert not left.exists()


def test_a_reused_pid_is_left_alone(left: Path) -> None:
    """The pid was reused: its process has nothing to do with the machine."""
    with sleeper(left) as stranger:
        machine.clear()
        assert stranger.poll() is None
        stranger.kill()
    assert not left.exists()


def test_a_machine_in_use_is_left_alone(left: Path) -> None:
    """The process that started it lives, and holds the lock."""
    lock = machine.taken("k-01")
    assert lock is not None
    with lock, sleeper(left, "-pidfile", str(left / "qemu.pid")) as running:
        machine.clear()
        assert running.poll() is None
        running.kill()
    assert left.exists()

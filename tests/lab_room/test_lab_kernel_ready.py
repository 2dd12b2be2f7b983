"""What virtual machines start from: kept while in use, removed if it does not start."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import IO

import pytest

from gpu_node.lab import keys, lock, prerequisites, roster
from gpu_node.lab.errors import LabError
from gpu_node.lab.kernel import disk, machine, qemu, ready, saved
from gpu_node.lab.kernel.machine import Machine
from gpu_node.lab.machine import run

WITHOUT_DISKS = """
from gpu_node.lab.errors import LabError
from gpu_node.lab.kernel import ready

def build():
    raise LabError("mmdebstrap is not installed")

ready.build = build
"""


@pytest.fixture
def clone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Return a clone's folder; the lab's lock and cache are in a temporary folder too."""
    monkeypatch.setattr(roster, "STATE", tmp_path / ".lab")
    monkeypatch.setattr(keys, "make", lambda: None)
    monkeypatch.setattr(lock, "file", lambda: tmp_path / "lock")
    for module in (disk, saved, machine):
        monkeypatch.setattr(module, "as_root", run)
    monkeypatch.setenv("GPU_NODE_LAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(disk, "recipe", lambda: "now")
    return tmp_path


def finished(place: Path) -> Path:
    """Make a folder of finished disks."""
    place.mkdir(parents=True)
    (place / "kernels").write_text("6.1.0-1-amd64\n6.1.0-1-cloud-amd64\n")
    return place


def test_a_start_that_fails_releases_the_machine(
    clone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next start reports its own reason, and not that another process runs the machine."""

    def fails() -> IO[str]:
        raise LabError("no disks")

    monkeypatch.setattr(disk, "in_use", fails)
    for _ in range(2):
        with pytest.raises(LabError, match=r"^no disks$"):
            machine.claim("k-01")


def test_a_boot_that_fails_releases_the_machine(
    clone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same holds after the machine has its disks."""

    def fails(self: Machine, state: str) -> None:
        raise LabError("no SSH within 240 s")

    monkeypatch.setattr(ready, "build", lambda: None)
    monkeypatch.setattr(Machine, "prepare", lambda self: None)
    monkeypatch.setattr(Machine, "restore", lambda self, state: False)
    monkeypatch.setattr(qemu, "version", lambda: "qemu 7.2")
    monkeypatch.setattr(Machine, "boot", fails)
    for _ in range(2):
        with pytest.raises(LabError, match=r"^no SSH"):
            ready.start("k-01")


@pytest.mark.parametrize("state", [saved.WAITING, saved.BOOTED])
def test_a_saved_state_that_does_not_start_is_thrown_away(
    clone: Path, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    """The machine is booted instead, into the same state; the disks stay."""
    booted = []
    disks = finished(disk.place())
    monkeypatch.setattr(ready, "build", lambda: None)
    monkeypatch.setattr(qemu, "version", lambda: "qemu 7.2")
    monkeypatch.setattr(qemu, "accelerator", lambda kernel: qemu.EMULATED)
    monkeypatch.setattr(qemu, "command", lambda home, port, accelerator: ["false"])
    monkeypatch.setattr(Machine, "boot", lambda self, state: booted.append(state))
    for name in ("boot.raw", "key", "vmlinuz"):
        (disks / name).write_text("")
    (disks / "host_key.pub").write_text("ssh-ed25519 AAAA k-01\n")
    saved.place().mkdir()
    saved.image(saved.place(), state).write_text("")
    started = ready.start("k-01", state)
    started.remove()
    assert booted == [state]
    assert not saved.place().exists()
    assert disks.is_dir()


def test_disks_in_use_stay_in_the_cache(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A build of other disks removes those of earlier recipes that no machine runs from."""
    old, used = (finished(roster.cache() / f"kernel-{name}") for name in ("old", "used"))
    unfinished = roster.cache() / "kernel-building-1"
    unfinished.mkdir()
    monkeypatch.setattr(disk, "recipe", lambda: "used")
    with disk.in_use():
        monkeypatch.setattr(disk, "recipe", lambda: "now")
        disk.remove_outdated()
        assert (old.exists(), unfinished.exists(), used.exists()) == (False, False, True)
    disk.remove_outdated()
    assert not used.exists()


def test_a_saved_state_is_of_one_qemu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another build of qemu, or another machine, does not take up the memory."""
    monkeypatch.setattr(qemu, "version", lambda: "QEMU emulator version 7.2.22 (deb12u18)")
    recipes = [saved.recipe()]
    monkeypatch.setattr(qemu, "BARE", [*qemu.BARE, "-S"])
    recipes.append(saved.recipe())
    monkeypatch.setattr(qemu, "version", lambda: "QEMU emulator version 7.2.22 (deb12u19)")
    recipes.append(saved.recipe())
    assert len(set(recipes)) == 3


def test_every_package_of_the_lane_is_in_the_table() -> None:
    """A machine without the lane's commands gets all of them."""
    table = prerequisites.INSTALL.with_name("needs.tsv").read_text().splitlines()
    packages = {line.split("\t")[2] for line in table if line.startswith("kernel\t")}
    assert {"qemu-system-x86", "qemu-utils", "mmdebstrap", "e2fsprogs"} <= packages


def test_without_disks_the_lane_ends_with_one_line(tmp_path: Path) -> None:
    """The reason is printed once, and no test is run."""
    (tmp_path / "without_disks.py").write_text(WITHOUT_DISKS)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "without_disks", "-m", "kernel", "tests/kernel"],
        cwd=roster.REPOSITORY,
        env={**os.environ, "PYTHONPATH": f"{tmp_path}:{roster.REPOSITORY}/src"},
        capture_output=True,
        text=True,
    )
    output = done.stdout + done.stderr
    assert done.returncode == 1
    assert output.count("mmdebstrap is not installed") == 1
    assert "Traceback" not in output and "ERROR" not in output

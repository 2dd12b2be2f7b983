"""The section on boot images, in each kind of sh; the programs that list one are stand-ins."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pyinfra.api import StringCommand

from gpu_node.facts.driver.images import SECTIONS, Nouveau, parse_images
from tests.node_scripts import run_apart

KERNEL = "6.1.0-37-amd64"
LINE = "-rw-r--r--   1 root     root  {size:>8} Jan  1  1970 usr/lib/modules/K/{path}"
OLD = 1_700_000_000


class Machine:
    """A machine with one kernel, whose initramfs is older than its nvidia module."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("bin", "boot", "etc", f"modules/{KERNEL}/updates/dkms"):
            (folder / name).mkdir(parents=True)
        self.module("updates/dkms/nvidia.ko", 100)
        self.image = folder / "boot" / f"initrd.img-{KERNEL}"
        self.image.touch()
        os.utime(self.image, (OLD, OLD))
        self.holds()

    def module(self, path: str, size: int) -> None:
        """A module of the kernel's."""
        file = self.folder / "modules" / KERNEL / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"x" * size)

    def holds(self, *lines: str, lister: str = "lsinitramfs") -> None:
        """What lists an image shows of it, and notes that it was asked."""
        program = self.folder / "bin" / lister
        shown = "\n".join(["usr/bin/busybox", *lines])
        program.write_text(f"#!/bin/sh\necho >>{self.folder}/asked\ncat <<'END'\n{shown}\nEND\n")
        program.chmod(0o755)

    def found(self, shell: str) -> tuple[Nouveau, dict[str, bool | None]]:
        """What the section finds there."""
        (section,) = SECTIONS
        command = section.command.replace("/lib/modules", f"{self.folder}/modules")
        command = command.replace("/boot/", f"{self.folder}/boot/")
        before = f"mkdir -p /etc/modprobe.d\nmount --bind {self.folder}/etc /etc/modprobe.d"
        done = run_apart(StringCommand(command), shell, before)
        assert (done.code, done.err) == (0, "")
        return parse_images(done.out)

    def stale(self, shell: str) -> dict[str, bool | None]:
        """Which images hold another nvidia module than the installed one."""
        return self.found(shell)[1]


@pytest.fixture
def machine(programs: Path) -> Machine:
    """A machine of files."""
    return Machine(programs.parent)


def test_another_module_inside(machine: Machine, shell: str) -> None:
    """Of another size, or packed in another way, it is another build."""
    machine.holds(LINE.format(size=99, path="updates/dkms/nvidia.ko"))
    assert machine.stale(shell) == {KERNEL: True}
    machine.holds(LINE.format(size=100, path="updates/dkms/nvidia.ko.xz"))
    assert machine.stale(shell) == {KERNEL: True}


def test_the_same_module_or_none_inside(machine: Machine, shell: str) -> None:
    """Modules that build on it are not it."""
    machine.holds(LINE.format(size=100, path="updates/dkms/nvidia.ko"))
    assert machine.stale(shell) == {KERNEL: False}
    machine.holds(LINE.format(size=7, path="updates/dkms/nvidia-drm.ko"))
    assert machine.stale(shell) == {KERNEL: False}


def test_an_image_that_is_newer_is_not_listed(machine: Machine, shell: str) -> None:
    """It takes a second or two."""
    future = int(machine.image.stat().st_ctime) + 100
    os.utime(machine.image, (future, future))
    assert machine.stale(shell) == {}
    assert not (machine.folder / "asked").exists()


def test_an_image_that_cannot_be_listed(machine: Machine, shell: str) -> None:
    """Unknown; dracut's program is asked where the other shows nothing."""
    program = machine.folder / "bin" / "lsinitramfs"
    program.write_text("#!/bin/sh\nexit 1\n")
    assert machine.stale(shell) == {KERNEL: None}
    machine.holds(LINE.format(size=1, path="extra/nvidia.ko"), lister="lsinitrd")
    assert machine.stale(shell) == {KERNEL: True}


@pytest.mark.parametrize(
    "path",
    [
        "extra/drivers/video/nvidia/nvidia.ko",
        "weak-updates/nvidia/nvidia.ko",
        "kernel/nvidia-535-server/nvidia.ko",
        "kernel/drivers/video/nvidia.ko",
        "updates/dkms/nvidia-current.ko",
        "updates/dkms/nvidia-current-open.ko",
        "updates/dkms/nvidia-tesla-470.ko",
    ],
)
def test_where_the_module_is(machine: Machine, path: str) -> None:
    """Of each origin."""
    (machine.folder / "modules" / KERNEL / "updates" / "dkms" / "nvidia.ko").unlink()
    assert machine.stale("dash") == {}
    machine.module(path, 100)
    machine.holds(LINE.format(size=1, path=path))
    assert machine.stale("dash") == {KERNEL: True}


def test_nouveau(machine: Machine, shell: str) -> None:
    """Both are read from one listing."""
    machine.module("kernel/drivers/gpu/drm/nouveau/nouveau.ko", 1)
    (machine.folder / "etc" / "a.conf").write_text("blacklist nouveau\n")
    machine.holds(
        LINE.format(size=1, path="kernel/drivers/gpu/drm/nouveau/nouveau.ko"),
        LINE.format(size=1, path="updates/dkms/nvidia.ko"),
    )
    nouveau, stale = machine.found(shell)
    assert nouveau.initramfs == {KERNEL: True} and stale == {KERNEL: True}
    assert nouveau.blacklists[0] == "/etc/modprobe.d/a.conf"
    assert (machine.folder / "asked").read_text() == "\n"

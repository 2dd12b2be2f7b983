"""hold_kernel.sh over a machine of files: held, held again, and taken back as it was."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyinfra.api import StringCommand

from gpu_node.deploy.engine.scripts import script
from tests.node_scripts import Ended, run

OLD, NEW = "3.10.0-1160.el7.x86_64", "6.1.0-1.el7.x86_64"
ENTRY = f"gnulinux-advanced-f00d>gnulinux-{OLD}-advanced-f00d"
SETTINGS = "# keep: as it is\nUPDATEDEFAULT=yes\nDEFAULTKERNEL=kernel"
PROGRAMS = {
    "grubby": """
case $1 in
  --default-kernel) cat "$HERE/default" ;;
  --set-default=*)
    [ -e "${1#*=}" ] && [ ! -e "$HERE/refuses" ] && echo "${1#*=}" >"$HERE/default" ;;
esac
""",
    "update-grub": """
. "$HERE/default-grub"
for file in "$HERE"/etc/default/grub.d/*.cfg; do [ ! -e "$file" ] || . "$file"; done
[ ! -e "$HERE/refuses" ] || { echo 'grub-mkconfig: error: disk is full' >&2; exit 1; }
echo "set default=\\"$GRUB_DEFAULT\\"" >"$HERE/boot/grub/grub.cfg"
""",
}


class Machine:
    """A machine with two kernels, of which the newer boots."""

    def __init__(self, folder: Path, family: str) -> None:
        self.folder = folder
        for name in ("bin", "boot/grub", "etc/sysconfig", "var/lib"):
            (folder / name).mkdir(parents=True)
        for kernel in (OLD, NEW):
            (folder / "boot" / f"vmlinuz-{kernel}").touch()
        name = {"rpm": "grubby", "deb": "update-grub"}[family]
        program = folder / "bin" / name
        program.write_text(f"#!/bin/sh\nHERE={folder}\n{PROGRAMS[name]}")
        program.chmod(0o755)
        (folder / "default-grub").write_text("GRUB_DEFAULT=0\n")
        (folder / "default").write_text(f"{folder}/boot/vmlinuz-{NEW}\n")
        self.settings = folder / "etc" / "sysconfig" / "kernel"
        self.settings.write_text(SETTINGS + "\n")
        self.note = folder / "var" / "lib" / "gpu-node" / "kernel-hold"

    def hold(self, shell: str, kernel: str) -> Ended:
        """Hold a kernel, or take that back."""
        command = script("hold_kernel", kernel=kernel, entry=ENTRY, note=str(self.note))
        text = command.get_raw_value()
        for place in ("boot", "etc"):
            for before in ('"', "=", " "):
                text = text.replace(f"{before}/{place}/", f"{before}{self.folder}/{place}/")
        return run(StringCommand(text), shell)

    def default(self) -> str:
        """The kernel or the entry that boots."""
        return (self.folder / "default").read_text().strip().rpartition("vmlinuz-")[2]

    def menu(self) -> str:
        """What GRUB's menu chooses by."""
        return (self.folder / "boot" / "grub" / "grub.cfg").read_text().split('"')[1]


@pytest.fixture
def rpm(programs: Path) -> Machine:
    """A machine with grubby."""
    return Machine(programs.parent, "rpm")


@pytest.fixture
def deb(programs: Path) -> Machine:
    """A machine with update-grub."""
    return Machine(programs.parent, "deb")


def test_by_grubby(rpm: Machine, shell: str) -> None:
    """No later kernel becomes the default; taken back, all is as it was, to the byte."""
    before = rpm.settings.read_bytes()
    for _ in range(2):
        done = rpm.hold(shell, OLD)
        assert (done.code, done.err) == (0, "")
        assert rpm.default() == OLD
        assert rpm.settings.read_text() == SETTINGS.replace("=yes", "=no") + "\n"
        assert f"kernel {OLD}\n" in rpm.note.read_text()
    assert (rpm.hold(shell, "").code, rpm.default()) == (0, NEW)
    assert rpm.settings.read_bytes() == before
    assert not rpm.note.exists()
    assert [path.name for path in rpm.settings.parent.iterdir()] == ["kernel"]


def test_another_default_since(rpm: Machine, shell: str) -> None:
    """An admin's choice stays when the hold is taken back."""
    rpm.settings.write_text(SETTINGS.replace("=yes", "=no") + "\n")
    assert rpm.hold(shell, OLD).code == 0
    third = rpm.folder / "boot" / "vmlinuz-5.5.5"
    third.touch()
    (rpm.folder / "default").write_text(f"{third}\n")
    assert rpm.hold(shell, "").code == 0
    assert rpm.default() == "5.5.5"
    assert "UPDATEDEFAULT=no" in rpm.settings.read_text()


def test_grubby_refuses(rpm: Machine, shell: str) -> None:
    """That is an error, and the next run begins with what was before."""
    (rpm.folder / "refuses").touch()
    done = rpm.hold(shell, OLD)
    assert done.code == 1 and f"grubby does not make {OLD} the default" in done.err
    (rpm.folder / "refuses").unlink()
    assert rpm.hold(shell, OLD).code == 0
    assert rpm.hold(shell, "").code == 0
    assert rpm.default() == NEW
    assert rpm.settings.read_text() == SETTINGS + "\n"


def test_by_update_grub(deb: Machine, shell: str) -> None:
    """By a separate file; taken back, that is gone and the menu as before."""
    assert deb.hold(shell, OLD).code == 0
    assert deb.menu() == ENTRY
    assert deb.hold(shell, "").code == 0
    assert deb.menu() == "0"
    assert not deb.note.exists()
    assert list((deb.folder / "etc" / "default" / "grub.d").iterdir()) == []


def test_update_grub_fails(deb: Machine, shell: str) -> None:
    """Nothing is left of it."""
    (deb.folder / "refuses").touch()
    done = deb.hold(shell, OLD)
    assert done.code == 1 and "disk is full" in done.err
    assert not deb.note.exists()
    assert list((deb.folder / "etc" / "default" / "grub.d").iterdir()) == []


def test_a_kernel_that_is_gone(rpm: Machine, shell: str) -> None:
    """Nothing is changed."""
    done = rpm.hold(shell, "4.4.4")
    assert done.code == 1 and "nothing was changed" in done.err
    assert rpm.default() == NEW and not rpm.note.exists()

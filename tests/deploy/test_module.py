"""module.sh over a /sys/module of files: what was loaded before is loaded afterwards."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpu_node.deploy.engine.scripts import script
from tests.node_scripts import Ended, run_apart

OLD, NEW = "535.129.03", "535.154.05"
# Each module, and those that it builds on.
STACK = {
    "nvidia": (),
    "nvidia_modeset": ("nvidia",),
    "nvidia_drm": ("nvidia_modeset",),
    "nvidia_uvm": ("nvidia",),
    "nvidia_peermem": ("nvidia",),
    "nv_peer_mem": ("nvidia",),
    "gdrdrv": ("nvidia",),
    "of_a_vendor": ("nvidia",),
    "nvidia_fs": (),
}
# A kernel as far as files show it: $HERE/needs/MODULE names what it builds on. nvidia_fs holds
# nvidia by a count alone. $HERE/fails/MODULE is what modprobe reports of one that it cannot load.
KERNEL = """#!/bin/sh
modules=/sys/module
count() {
  at=$modules/$1
  [ -d "$at" ] || return 0
  set -- "$1" $(ls "$at/holders")
  extra=$(cat "$HERE/extra/$1" 2>/dev/null || echo 0)
  [ "$1" != nvidia ] || [ ! -d $modules/nvidia_fs ] || extra=$((extra + 7))
  echo $(($# - 1 + extra)) >"$at/refcnt"
}
"""
PROGRAMS = {
    "modprobe": """
load() {
  [ ! -d $modules/$1 ] || return 0
  [ ! -e "$HERE/fails/$1" ] || { cat "$HERE/fails/$1" >&2; exit 1; }
  for below in $(cat "$HERE/needs/$1"); do (load "$below") || exit 1; done
  mkdir -p $modules/$1/holders
  for below in $(cat "$HERE/needs/$1"); do : >"$modules/$below/holders/$1"; count $below; done
  [ "$1" != nvidia ] || echo "$ON_DISK" >$modules/nvidia/version
  count $1; count nvidia
}
name=$(echo "$1" | tr - _)
[ -e "$HERE/needs/$name" ] || { echo "modprobe: FATAL: Module $name not found." >&2; exit 1; }
load "$name"
""",
    "rmmod": """
count "$1"
[ "$(cat $modules/$1/refcnt)" = 0 ] || { echo "rmmod: ERROR: Module $1 is in use" >&2; exit 1; }
rm -r "$modules/$1"; rm -f $modules/*/holders/$1
for each in $modules/*; do count "${each##*/}"; done
echo "$1" >>"$HERE/unloaded"
""",
    "modinfo": '[ -e "$HERE/needs/$(echo "$1" | tr - _)" ]',
    "dmesg": "echo 'NVRM: API mismatch'",
}


class Kernel:
    """A kernel with modules loaded."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("bin", "sys", "needs", "fails", "extra"):
            (folder / name).mkdir()
        for name, below in STACK.items():
            (folder / "needs" / name).write_text(" ".join(below))
        for name, body in PROGRAMS.items():
            program = folder / "bin" / name
            head = KERNEL.replace("\n", f"\nHERE={folder} ON_DISK={NEW}\n", 1)
            program.write_text(head + body)
            program.chmod(0o755)
        self.load(*STACK)

    def load(self, *names: str) -> None:
        """Have modules loaded, nvidia at the old version."""
        for name in names:
            holders = self.folder / "sys" / name / "holders"
            holders.mkdir(parents=True)
            for each, below in STACK.items():
                if name in below and each in names:
                    (holders / each).touch()
            count = len(list(holders.iterdir())) + (7 if name == "nvidia" else 0)
            (self.folder / "sys" / name / "refcnt").write_text(f"{count}\n")
        (self.folder / "sys" / "nvidia" / "version").write_text(f"{OLD}\n")

    def loaded(self) -> set[str]:
        """The modules that are there now."""
        return {path.name for path in (self.folder / "sys").iterdir()}

    def version(self) -> str:
        """That of the loaded nvidia."""
        return (self.folder / "sys" / "nvidia" / "version").read_text().strip()

    def run(self, shell: str, later: str = "no") -> Ended:
        """Load the module that is on the disk."""
        command = script("module", version=NEW, later=later, allow="yes")
        return run_apart(command, shell, f"mount --bind {self.folder / 'sys'} /sys/module")


@pytest.fixture
def kernel(programs: Path) -> Kernel:
    """A kernel with the old nvidia and all that may build on it."""
    return Kernel(programs.parent)


def test_all_that_was_loaded_is_loaded_again(kernel: Kernel, shell: str) -> None:
    """Above the new module, one that no list names among them."""
    done = kernel.run(shell)
    assert (done.code, done.err) == (0, "")
    assert kernel.version() == NEW
    assert kernel.loaded() == set(STACK)


def test_what_was_not_loaded_stays_out(kernel: Kernel, shell: str) -> None:
    """But for nvidia_uvm, without which CUDA does not start."""
    for name in set(STACK) - {"nvidia", "gdrdrv"}:
        path = kernel.folder / "sys" / name
        for file in (*path.rglob("*"), *(kernel.folder / "sys" / "nvidia").rglob(name)):
            if file.is_file():
                file.unlink(missing_ok=True)
        (path / "holders").rmdir()
        path.rmdir()
    (kernel.folder / "sys" / "nvidia" / "refcnt").write_text("1\n")
    assert kernel.run(shell).code == 0
    assert kernel.loaded() == {"nvidia", "gdrdrv", "nvidia_uvm"}


def test_one_that_is_in_use_after_all(kernel: Kernel, shell: str) -> None:
    """Found when most are unloaded: they are loaded again, and the old one stays."""
    (kernel.folder / "extra" / "nvidia").write_text("1")
    done = kernel.run(shell)
    assert done.code == 1
    assert "535.129.03 cannot be unloaded: rmmod: ERROR: Module nvidia is in use" in done.err
    assert "nvidia_fs" in (kernel.folder / "unloaded").read_text()
    assert kernel.version() == OLD
    assert kernel.loaded() == set(STACK)


def test_one_that_is_held_before(kernel: Kernel, shell: str) -> None:
    """Then nothing is unloaded at all."""
    (kernel.folder / "sys" / "nvidia_drm" / "refcnt").write_text("1\n")
    done = kernel.run(shell)
    assert done.code == 1 and "something holds nvidia_drm" in done.err
    assert not (kernel.folder / "unloaded").exists()
    assert kernel.loaded() == set(STACK)


def test_a_new_module_that_cannot_be_loaded(kernel: Kernel, shell: str) -> None:
    """All lines of modprobe are shown, and what is lost is named."""
    lines = (
        "modprobe: ERROR: could not insert 'nvidia': Key was rejected by service",
        "modprobe: ERROR: ../libkmod/libkmod-module.c:968 command_do() Error running install",
    )
    (kernel.folder / "fails" / "nvidia").write_text("\n".join(lines) + "\n")
    done = kernel.run(shell)
    assert done.code == 1
    assert "\n".join(lines) in done.err and "the kernel says: NVRM: API mismatch" in done.err
    assert "not loaded again:" in done.err and "\nnvidia_peermem: modprobe: ERROR" in done.err
    # What builds on nothing of it is back.
    assert kernel.loaded() == {"nvidia_fs"}


def test_one_that_does_not_fit_the_new_module(kernel: Kernel, shell: str) -> None:
    """The driver is right, and what was taken away is a failure, by name and reason."""
    error = "modprobe: ERROR: could not insert 'gdrdrv': Exec format error"
    (kernel.folder / "fails" / "gdrdrv").write_text(error)
    done = kernel.run(shell)
    assert done.code == 1 and f"not loaded again:\ngdrdrv: {error}" in done.err
    assert kernel.version() == NEW
    assert kernel.loaded() == set(STACK) - {"gdrdrv"}
    assert kernel.run(shell, later="yes").code == 0


def test_nothing_was_loaded(kernel: Kernel, shell: str) -> None:
    """After a boot: the module, and nvidia_uvm."""
    for path in sorted((kernel.folder / "sys").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    assert kernel.run(shell).code == 0
    assert kernel.loaded() == {"nvidia", "nvidia_uvm"}

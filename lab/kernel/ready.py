"""Builds what virtual machines start from, once on each computer, and starts them from that."""

import os

from gpu_node.lab import lock, tree
from gpu_node.lab.kernel import disk, machine, qemu, saved
from gpu_node.lab.kernel.machine import Machine
from gpu_node.lab.machine import as_root
from gpu_node.lab.progress import step


def build() -> None:
    """Put disks and saved machines into the cache, unless they are there."""
    qemu.install()
    if not _is_built():
        with lock.held():
            tree.build()
        with lock.held("kernel-"):
            _build()


def start(name: str = "k-01", state: str = saved.WAITING) -> Machine:
    """A running machine in one of the saved states; it is booted if the state does not start."""
    build()
    begun = machine.claim(name)
    try:
        resume(begun, state)
    except BaseException:
        begun.remove()
        raise
    return begun


def resume(begun: Machine, state: str) -> None:
    """Have a machine that is powered off run in a saved state, or boot it."""
    if not begun.restore(state):
        saved.throw_away()
        begun.boot(state)


def _is_built() -> bool:
    return disk.place().is_dir() and (not _is_emulated() or saved.place().is_dir())


def _is_emulated() -> bool:
    return qemu.accelerator(disk.place() / "vmlinuz") == qemu.EMULATED


def _build() -> None:
    disk.build()
    if not _is_built():
        with step("saving a machine that has booted, one to three minutes"):
            _save()


def _save() -> None:
    begun = machine.claim("saving", monitored=True)
    half = disk.place() / f"saving-{os.getpid()}"
    try:
        for leftover in disk.place().glob("saving-*"):
            as_root(["rm", "-rf", "--one-file-system", leftover])
        begun.boot(saved.WAITING)
        begun.save(saved.WAITING, begun.home)
        begun.reboot()
        begun.save(saved.BOOTED, begun.home)
        as_root(["mkdir", half])
        for state in (saved.WAITING, saved.BOOTED):
            made = [saved.image(begun.home, state), saved.memory(begun.home, state)]
            as_root(["mv", *made, half])
        as_root(["sh", "-euc", 'chown 0:0 "$1"/*; chmod 644 "$1"/*', "sh", half])
        as_root(["mv", "-T", half, saved.place()])
    finally:
        begun.remove()

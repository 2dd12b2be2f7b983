"""Builds the command line of qemu, and finds out whether KVM works on this machine."""

import os
import platform
import socket
import subprocess
import tempfile
from pathlib import Path

from gpu_node.lab import prerequisites, roster
from gpu_node.lab.machine import as_root, run
from gpu_node.lab.progress import step

KVM = Path("/dev/kvm")
EMULATED = "tcg,thread=multi"
ROOT = "root.qcow2"
# Under a working KVM, a kernel without a disk gives up within two seconds.
SECONDS = 8
BARE = [
    *["qemu-system-x86_64", "-nodefaults", "-no-user-config", "-display", "none"],
    # Without what slows an emulated processor down: a page table of five levels, what a machine
    # with machines of its own has, and a second processor, which costs more than it does.
    *["-cpu", "max,la57=off,svm=off", "-smp", "1", "-m", "1024"],
    # A reset ends it, and it is started again: under emulation that is twice as fast.
    "-no-reboot",
]


def install() -> None:
    """Install qemu and the programs that write disks, if they are missing."""
    prerequisites.install("kernel")


def accelerator(kernel: Path) -> str:
    """`kvm` where that boots a kernel, else an emulation; found out once and remembered."""
    if not os.access(KVM, os.R_OK | os.W_OK):
        return EMULATED
    remembered = roster.cache() / "kernel-accelerator"
    machine = f"{platform.release()} {platform.version()}"
    if remembered.is_file():
        found, _, where = remembered.read_text().strip().partition(" on ")
        if where == machine:
            return found
    with step("finding out whether KVM boots a kernel"):
        found = "kvm" if kvm_boots(kernel) else EMULATED
    as_root(["tee", remembered], stdin=f"{found} on {machine}\n")
    return found


def kvm_boots(kernel: Path) -> bool:
    """Whether a kernel under KVM starts and finds no disk; some machines only seem to have KVM."""
    with tempfile.TemporaryDirectory(prefix="gpu-node-lab-") as scratch:
        console = Path(scratch) / "console"
        options = ["-append", "console=ttyS0 panic=-1", "-serial", f"file:{console}"]
        try:
            subprocess.run(
                [*BARE, "-accel", "kvm", "-kernel", kernel, *options],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return False
        return console.is_file() and b"Unable to mount root" in console.read_bytes()


def command(home: Path, port: int, accelerator: str) -> list[str]:
    """Return the command for the machine with its files in `home`, and its sshd on `port`."""
    root = f"file={escaped(home / ROOT)},if=none,id=root,format=qcow2,cache=unsafe"
    boot = f"file={escaped(home / 'boot.raw')},if=none,id=boot,format=raw,readonly=on"
    console = f"file,id=console,path={escaped(home / 'console.log')},append=on"
    forward = f"user,id=net,restrict=on,hostfwd=tcp:127.0.0.1:{port}-:22"
    return [
        *[*BARE, "-accel", accelerator],
        *["-chardev", console, "-serial", "chardev:console", "-pidfile", str(home / "qemu.pid")],
        # The BIOS starts from the second disk, whose GRUB then reads the first one.
        *["-drive", root, "-device", "virtio-blk-pci,drive=root"],
        *["-drive", boot, "-device", "virtio-blk-pci,drive=boot,bootindex=0"],
        *["-netdev", forward, "-device", "virtio-net-pci,netdev=net,romfile="],
        *[
            "-object",
            "rng-random,filename=/dev/urandom,id=rng",
            "-device",
            "virtio-rng-pci,rng=rng",
        ],
    ]


def version() -> str:
    """The release and the build of qemu."""
    return run([BARE[0], "--version"]).stdout.splitlines()[0]


def layer(image: Path, beneath: Path) -> None:
    """Make a disk that holds only what is written to it, over a raw one that stays as it is."""
    run(["qemu-img", "create", "-q", "-f", "qcow2", "-b", beneath, "-F", "raw", image])


def escaped(path: Path) -> str:
    """A path as an option with commas takes it."""
    return str(path).replace(",", ",,")


def free_port() -> int:
    """A free port of the loopback interface."""
    with socket.socket() as asked:
        asked.bind(("127.0.0.1", 0))
        port: int = asked.getsockname()[1]
        return port

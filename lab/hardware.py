"""Gives a starting node what a container lacks: GPUs, and a kernel that loads modules."""

from pathlib import Path

from gpu_node.lab.machine import as_root

SCRIPT = Path(__file__).with_suffix(".sh")
# Its GPUs on the PCI bus; the disks of the kernel lane have it, too.
PCI = SCRIPT.with_name("pci.sh")
# With this machine's rights: a node may lack the rights to mount.
ENTER = ["nsenter", "--mount", "--wd=/", "--target"]


def power_on(pid: int) -> None:
    """Run the steps before a machine's first process; it has no network yet."""
    as_root([*ENTER, str(pid), "/bin/sh", "-eus"], stdin=script())


def script() -> str:
    """What runs on the node."""
    return PCI.read_text() + SCRIPT.read_text()

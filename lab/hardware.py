"""Gives a node that starts what a container has not: cards, and a kernel that loads modules."""

from pathlib import Path

from lab.machine import as_root

SCRIPT = Path(__file__).with_suffix(".sh")
# The rights are this machine's: a node may have been started with fewer than mounts take.
ENTER = ["nsenter", "--mount", "--wd=/", "--target"]


def power_on(pid: int) -> None:
    """Do what comes before a machine's first process; its network is not there yet."""
    as_root([*ENTER, str(pid), "/bin/sh", "-eus"], stdin=script())


def script() -> str:
    """What runs on the node."""
    return SCRIPT.read_text()

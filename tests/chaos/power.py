"""A disk for the lab's nodes that can lose its power: what is not written yet is lost.

The file system of the nodes' disks is an ext4 in a file. ext4 has a request for tests that ends all
writes at once, its journal's too (EXT4_IOC_SHUTDOWN); the next mount recovers it, as a boot does.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from gpu_node.lab import disks, life, podman, roster
from gpu_node.lab.errors import LabError
from gpu_node.lab.machine import as_root

SIZE = "6G"
UNMOUNT_SECONDS = 60
SHUTDOWN = """
import fcntl, os, struct, sys
fcntl.ioctl(os.open(sys.argv[1], os.O_RDONLY), 0x8004587D, struct.pack("I", 2))
"""


def _disks() -> Path:
    return roster.cache() / "nodes"


def _image() -> Path:
    return roster.cache() / "chaos.ext4"


@contextmanager
def own_disk() -> Iterator[None]:
    """Have the disks of all nodes on a file system that `fail` can stop; all are off at first."""
    clear()
    off()
    as_root(["rm", "-f", _image()])
    as_root(["truncate", "--size", SIZE, _image()])
    as_root(["mke2fs", "-q", "-F", "-t", "ext4", _image()])
    as_root(["mkdir", "-p", _disks()])
    mount()
    try:
        yield
    finally:
        off()
        unmount()
        as_root(["rm", "-f", _image()])
        life.up()


def clear() -> None:
    """Unmount the file system that a killed lane has left."""
    while os.path.ismount(_disks()):
        off()
        unmount()


def off() -> None:
    """Remove the containers of the nodes, and unmount their disks."""
    for node in roster.NODES.values():
        podman.remove(node.container)
        disks.unmount(node.name)


def mount() -> None:
    """Mount the file system; after a failure that recovers its journal."""
    as_root(["mount", "-o", "loop", _image(), _disks()])


def unmount() -> None:
    """Unmount the file system; processes of the nodes may need a moment to end.

    As long as another one has it in a mount namespace of its own, a new mount is the old one, which
    is without power.
    """
    end = time.monotonic() + UNMOUNT_SECONDS
    while True:
        done = as_root(["umount", _disks()], check=not time.monotonic() < end)
        if done.returncode == 0:
            break
        time.sleep(0.2)
    # Where a killed lane has left two mounts, the second one is still there.
    while not os.path.ismount(_disks()) and as_root(["losetup", "--associated", _image()]).stdout:
        if time.monotonic() > end:
            raise LabError(f"another process has {_image()} mounted; next: end it, and run again")
        time.sleep(0.2)


def save() -> None:
    """Write all that the nodes have to their disks."""
    as_root(["sync", "-f", _disks()])


def fail(release: Callable[[], None]) -> None:
    """Let the power fail, and mount the disk again with the nodes off.

    `release` ends what the tests have open there.
    """
    as_root([sys.executable, "-c", SHUTDOWN, _disks()])
    release()
    off()
    unmount()
    mount()

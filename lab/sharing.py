"""Mounts one directory into several nodes, as a server's export would be."""

from __future__ import annotations

from collections.abc import Sequence

from gpu_node.lab import disks, inside, lock, roster
from gpu_node.lab.machine import as_root

# Numbers of x86 and arm64 alike, and flags, of linux/mount.h and linux/sched.h: a mount is copied
# without a place (open_tree), and given one in a node's own tree (move_mount).
_MOVE = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
def call(*words):
    found = libc.syscall(*words)
    if found < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return found
def enter(space):
    if libc.setns(space, 0x20000):
        raise OSError(ctypes.get_errno(), "setns: " + os.strerror(ctypes.get_errno()))
source, target, *pids = map(os.fsencode, sys.argv[1:])
here = os.open("/proc/self/ns/mnt", os.O_RDONLY)
for pid in pids:
    copy = call(428, -100, source, 1)
    enter(os.open(b"/proc/" + pid + b"/ns/mnt", os.O_RDONLY))
    call(429, copy, b"", -100, target, 4)
    enter(here)
"""


@lock.alone
def mount(names: Sequence[str], path: str) -> None:
    """Put what the first node has at `path` onto all of them, by FUSE: what one writes all have.

    It ends when the nodes are put back; what is written there is then gone.
    """
    chosen = [roster.node(name) for name in names]
    home = roster.cache() / "shared" / path.strip("/").replace("/", "-")
    files, at = home / "files", home / "mount"
    as_root(["sh", "-c", 'umount -l "$1" 2>/dev/null; rm -rf "$2"', "sh", at, home])
    as_root(["mkdir", "-p", at])
    as_root(["cp", "-a", disks.root(chosen[0].name) / path.lstrip("/"), files])
    as_root(["bindfs", "-o", "allow_other", files, at])
    try:
        pids = [str(inside.pid(node.container)) for node in chosen]
        as_root(["python3", "-c", _MOVE, at, path, *pids])
    finally:
        # The nodes keep their mounts; bindfs ends with the last of them.
        as_root(["umount", "-l", at])

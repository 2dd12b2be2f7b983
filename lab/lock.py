"""Lets one command at a time change the lab, which is one a machine, whichever clone it is from."""

import fcntl
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import ParamSpec, TypeVar

from gpu_node.lab import roster
from gpu_node.lab.errors import LabError
from gpu_node.lab.machine import as_root

LOCKS = Path("/proc/locks")
MODE = 0o644
MAKE = f': >>"$1"; chmod {MODE:o} "$1"'

P = ParamSpec("P")
R = TypeVar("R")
# The locks that this process holds already: `lab up` resets nodes, too.
_held: set[Path] = set()


def file() -> Path:
    """The file that is locked; it is never removed, and only a living process holds the lock."""
    folder = Path("/run/lock")
    return (folder if folder.is_dir() else Path("/tmp")) / f"{roster.NETWORK}.lock"


@contextmanager
def held(what: str = "") -> Iterator[None]:
    """Hold the lab's lock, and wait for the process that has it; may be nested.

    `what` is built beside the lab, under a separate lock: nodes may be reset meanwhile.
    """
    path = file().with_name(f"{what}{file().name}")
    if path in _held:
        yield
        return
    descriptor = _opened(path)
    try:
        _lock(descriptor)
        _held.add(path)
        yield
    finally:
        _held.discard(path)
        os.close(descriptor)


def alone(function: Callable[P, R]) -> Callable[P, R]:
    """Let a function hold the lab while it runs."""

    @wraps(function)
    def waiting(*args: P.args, **kwargs: P.kwargs) -> R:
        with held():
            return function(*args, **kwargs)

    return waiting


def holder(at: os.stat_result, locks: str) -> str:
    """Return the pid that holds a file, from /proc/locks; empty if it has none."""
    place = f"{os.major(at.st_dev):02x}:{os.minor(at.st_dev):02x}:{at.st_ino}"
    for words in map(str.split, locks.splitlines()):
        # One that waits has an arrow in front; one outside our pid namespace is a zero.
        if words[1:2] == ["FLOCK"] and words[5:6] == [place] and words[4] != "0":
            return words[4]
    return ""


def _opened(path: Path) -> int:
    try:
        try:
            return _open(path)
        except PermissionError:  # on some systems only root may write to /run/lock
            as_root(["sh", "-euc", MAKE, "sh", path])
            return _open(path)
    except OSError as error:
        raise LabError(f"{path} cannot be opened: {error.strerror}") from None


def _open(path: Path) -> int:
    """Open the file for reading, which is enough to lock one that another user has made."""
    try:
        return os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CREAT | os.O_EXCL, MODE)
        except FileExistsError:  # another command was faster
            return os.open(path, os.O_RDONLY)
        os.fchmod(descriptor, MODE)  # whatever the umask
        return descriptor


def _lock(descriptor: int) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        _say_who_is_waited_for(descriptor)
        fcntl.flock(descriptor, fcntl.LOCK_EX)


def _say_who_is_waited_for(descriptor: int) -> None:
    pid = holder(os.fstat(descriptor), LOCKS.read_text() if LOCKS.is_file() else "")
    who = f" (pid {pid})" if pid else ""
    print(f"lab: another lab command is running{who}; waiting", file=sys.stderr, flush=True)

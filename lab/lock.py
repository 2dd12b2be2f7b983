"""Lets one command at a time change the lab, which is one a machine, whichever clone it is from."""

import fcntl
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import ParamSpec, TypeVar

from lab import roster
from lab.errors import LabError

P = ParamSpec("P")
R = TypeVar("R")
# Whether this process is at it already: bringing the lab up resets nodes, too.
_held = False


def file() -> Path:
    """The file that is locked; it is never removed, and nobody holds it who does not live."""
    folder = Path("/run/lock")
    return (folder if folder.is_dir() else Path("/tmp")) / f"{roster.NETWORK}.lock"


@contextmanager
def held() -> Iterator[None]:
    """Hold the lab, and wait for whoever has it; to ask again within is fine."""
    global _held
    if _held:
        yield
        return
    descriptor = _opened()
    try:
        _lock(descriptor)
        _held = True
        yield
    finally:
        _held = False
        os.close(descriptor)


def alone(function: Callable[P, R]) -> Callable[P, R]:
    """Let a function hold the lab while it runs."""

    @wraps(function)
    def waiting(*args: P.args, **kwargs: P.kwargs) -> R:
        with held():
            return function(*args, **kwargs)

    return waiting


def _opened() -> int:
    """Open the file for reading, which is enough to lock one that another user has made."""
    try:
        return os.open(file(), os.O_RDONLY)
    except FileNotFoundError:
        try:
            return os.open(file(), os.O_RDONLY | os.O_CREAT, 0o644)
        except OSError as error:
            raise LabError(f"{file()} cannot be made: {error.strerror}") from None
    except OSError as error:
        raise LabError(f"{file()} cannot be opened: {error.strerror}") from None


def _lock(descriptor: int) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print("lab: waiting for another lab command to end", file=sys.stderr, flush=True)
        fcntl.flock(descriptor, fcntl.LOCK_EX)

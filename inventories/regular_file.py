"""Reads a file of a limited size: a named pipe or a device would never end."""

from __future__ import annotations

import errno
import os
import stat
from io import BufferedReader
from pathlib import Path

from gpu_node.inventories.errors import reason

MOST_BYTES = 1_000_000
# What was found in a file whose bytes are no text.
NOT_UTF8 = "bytes that are not UTF-8 text"
# Opens nothing: there is a descriptor of what a name leads to. Only Linux has it.
_LOOK: int = getattr(os, "O_PATH", 0)
_KINDS = (
    (stat.S_ISFIFO, "is a named pipe, not a file"),
    (stat.S_ISSOCK, "is a socket, not a file"),
    (stat.S_ISCHR, "is a device, not a file"),
    (stat.S_ISBLK, "is a device, not a file"),
)


def why_none(path: str, missing: str) -> str:
    """Return why a path leads to no regular file; empty where it does. `missing`: nothing is there.

    The file is not opened.
    """
    try:
        mode = os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return missing
    except OSError as error:
        return reason(error)
    kinds = (what.removeprefix("is ") for is_kind, what in _KINDS if is_kind(mode))
    return "a folder, not a file" if stat.S_ISDIR(mode) else next(kinds, "")


def why_no_folder(path: str) -> str:
    """Return why a path leads to no directory; empty where it does."""
    try:
        return "" if stat.S_ISDIR(os.stat(path).st_mode) else "not a directory"
    except FileNotFoundError:
        return "no such folder"
    except OSError as error:
        return reason(error)


def opened(file: str | Path, at: int | None = None, follow: bool = True) -> BufferedReader:
    """Open a file, in the folder `at` if one is given; OSError if it is not a regular file.

    Without `follow` a link is refused. Nothing but a regular file is opened for reading, as that
    alone makes some devices act: a watchdog reboots the machine.
    """
    # Without O_NONBLOCK, opening a named pipe waits for its writer.
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
    no_link = 0 if follow else os.O_NOFOLLOW
    looking = os.open(file, (_LOOK or flags) | os.O_CLOEXEC | no_link, dir_fd=at)
    try:
        _check(looking, file)
        here = f"/proc/self/fd/{looking}"
        if _LOOK and os.path.exists(here):
            descriptor = os.open(here, flags)
        else:
            descriptor = os.open(file, flags | no_link, dir_fd=at)
    finally:
        os.close(looking)
    try:
        _check(descriptor, file)
        return os.fdopen(descriptor, "rb")
    except OSError:  # a folder, too
        os.close(descriptor)
        raise


def _check(descriptor: int, file: str | Path) -> None:
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISLNK(mode):
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(file))
    for is_kind, what in _KINDS:
        if is_kind(mode):
            raise OSError(errno.EINVAL, what, str(file))


def content(file: Path, most: int = MOST_BYTES) -> bytes:
    """Return the bytes of a file; OSError if it is not a regular file, or has more than `most`."""
    with opened(file) as found:
        data = found.read(most + 1)
        if len(data) > most:
            size = max(os.fstat(found.fileno()).st_size, len(data))
            raise OSError(errno.EFBIG, f"is too large: {size:,} bytes", str(file))
    return data

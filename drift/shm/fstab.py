"""The line of /etc/fstab for /dev/shm, as the report advises it and as the deploy writes it."""

import re
from collections.abc import Sequence

_SIZE = re.compile(r"(^|,)size=[^,]*")
# What restricts a mount.
_KEPT_FLAGS = ("nosuid", "nodev", "noexec")
_FACTORS = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3, "t": 1024**4}


def falls_short(size: str, memory: int | None, least: int) -> bool:
    """Whether a `size=` (8G, 8388608k, 50%, empty: see tmpfs(5)) gives less than the least.

    0 is without a limit; what has no meaning gives nothing; a share of an unknown memory may do.
    """
    match = re.fullmatch(r"(\d+)([kmgt%]?)", size.lower() or "50%")
    if match is None:
        return True
    count, unit = int(match[1]), match[2]
    if unit == "%":
        return memory is not None and memory * count // 100 < least
    return 0 < count * _FACTORS[unit] < least


def kept(flags: Sequence[str]) -> list[str]:
    """Return the flags of a mount that a new line, and a remount, keep."""
    return [flag for flag in _KEPT_FLAGS if flag in flags]


def with_size(options: str, size: str) -> str:
    """Return a line's options with `size=` in the place of its size, or behind its options."""
    if _SIZE.search(options):
        return _SIZE.sub(lambda match: f"{match[1]}size={size}", options)
    return f"{options},size={size}" if options else f"size={size}"


def new_line(size: str, flags: Sequence[str] = ()) -> str:
    """Return a line for /dev/shm that keeps the flags of its mount which restrict it."""
    options = ",".join(["defaults", *kept(flags)])
    return f"tmpfs /dev/shm tmpfs {with_size(options, size)} 0 0"

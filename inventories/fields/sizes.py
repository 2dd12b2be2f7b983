"""Sizes as people write them (8G) and as the kernel counts them (bytes, powers of 1024)."""

import re

UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
LARGEST = (1 << 63) - 1
ALLOWED = "a whole number with its unit, such as 512K, 64M, 8G or 1T"

_SIZE = re.compile(r"([1-9][0-9]{0,18})([KMGT])")


def parse_size(text: str) -> int:
    """Bytes in a size such as 8G; ValueError for anything else."""
    match = _SIZE.fullmatch(text)
    if not match:
        raise ValueError(f"not {ALLOWED}")
    size = int(match[1]) * UNITS[match[2]]
    if size > LARGEST:
        raise ValueError("more bytes than a kernel can count")
    return size


def format_size(size: int) -> str:
    """The shortest exact text: 8G, 1536M, and bare bytes where no unit divides them."""
    for unit, factor in reversed(UNITS.items()):
        if size and size % factor == 0:
            return f"{size // factor}{unit}"
    return str(size)

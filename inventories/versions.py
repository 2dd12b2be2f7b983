"""The order of releases: of drivers, CUDA, NCCL, torch, rsync and systems, by their numbers.

Kernels are ordered as boot menus do (drift/driver/boot.py); Python packages, compilers and cmake by
PEP 440 (packaging), as torch's checks do; packages of the system by their package manager alone.
"""

import re

_NUMBERS = re.compile(r"\d{1,9}(\.\d{1,9})*", re.ASCII)


def numbers(version: str) -> tuple[int, ...]:
    """Return the numbers that a version begins with: 2, 18, 1 of 2.18.1-1+cuda12.1."""
    match = _NUMBERS.match(version)
    return tuple(map(int, match[0].split("."))) if match else ()

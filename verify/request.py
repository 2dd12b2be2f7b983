"""What a user may ask of a verification; it imports nothing, so that a help text can name it."""

from __future__ import annotations

from dataclasses import dataclass

GLOO, NCCL = "gloo", "nccl"
SECONDS, SIZE = 120, 64 << 20


@dataclass(frozen=True)
class Wish:
    """What a caller may say: a Python for all nodes, a backend, seconds for the job, bytes."""

    python: str = ""
    backend: str = ""
    seconds: int = SECONDS
    size: int = SIZE
    allow_disruption: bool = False

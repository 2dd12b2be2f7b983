"""The options of a verification; imports nothing, so that help texts can use it."""

from dataclasses import dataclass

GLOO, NCCL = "gloo", "nccl"
SECONDS, LEAST_SECONDS, SIZE = 120, 10, 64 << 20


@dataclass(frozen=True)
class Request:
    """Options: a Python for all nodes, a backend, the job's seconds, the tensor's bytes."""

    python: str = ""
    backend: str = ""
    seconds: int = SECONDS
    size: int = SIZE
    allow_disruption: bool = False

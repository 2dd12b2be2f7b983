"""The limits of a process: of a new session, or of a daemon."""

from typing import Literal

from gpu_node.facts.probe.base import State
from gpu_node.facts.probe.lines import lines_of
from gpu_node.facts.probe.protocol import Unreadable

Limit = int | Literal["unlimited"]
Item = Literal["nofile", "memlock", "stack", "nproc"]

# /proc/PID/limits names (fs/proc/base.c) of the limits we ask for.
_KERNEL_NAMES: dict[Item, str] = {
    "nofile": "Max open files",
    "memlock": "Max locked memory",
    "stack": "Max stack size",
    "nproc": "Max processes",
}
# limits.conf(5) counts memlock and stack in KiB; the kernel counts bytes.
UNITS: dict[Item, int] = {"nofile": 1, "memlock": 1024, "stack": 1024, "nproc": 1}


class Pair(State):
    """A soft and a hard limit: a number (bytes for memlock and stack) or "unlimited"."""

    soft: Limit
    hard: Limit


class Session(State):
    """The limits of a new session of the SSH user."""

    nofile: Pair
    memlock: Pair
    stack: Pair
    # Processes and threads of all sessions of the user; root has no such limit.
    nproc: Pair | None = None


def parse_session(text: str) -> Session:
    """Parse /proc/self/limits: name, soft, hard, unit in columns."""
    pairs = {item: _pair(text, name) for item, name in _KERNEL_NAMES.items()}
    return Session.model_validate(pairs)


def _pair(text: str, name: str) -> Pair:
    for line in lines_of(text):
        if line.startswith(name):
            soft, hard = line[len(name) :].split()[:2]
            return Pair(soft=_limit(soft), hard=_limit(hard))
    raise Unreadable(f"no line {name!r}")


def _limit(text: str) -> Limit:
    return "unlimited" if text == "unlimited" else int(text)

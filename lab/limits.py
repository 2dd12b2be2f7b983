"""Chooses the ulimits of a node within the limits of this machine."""

import resource
from collections.abc import Mapping
from pathlib import Path

CAP_SYS_RESOURCE = 24
UNLIMITED = resource.RLIM_INFINITY

# As found in the field, soft and hard; the hard ones are above the inventory's values.
AS_FOUND = {
    "nofile": (1024, 20000),
    "memlock": (64 << 10, 8 << 20),
    "nproc": (8192, 8192),
}
NUMBERS = {
    "nofile": resource.RLIMIT_NOFILE,
    "memlock": resource.RLIMIT_MEMLOCK,
    "nproc": resource.RLIMIT_NPROC,
}


def choose(machine_hard: Mapping[str, int], may_raise: bool) -> list[str]:
    """podman's --ulimit values: as found in the field, never above what the machine allows."""
    chosen = []
    for name, (soft, hard) in AS_FOUND.items():
        allowed = machine_hard[name]
        if not may_raise and allowed != UNLIMITED:
            hard = min(hard, allowed)
        chosen.append(f"{name}={min(soft, hard)}:{hard}")
    return chosen


def machine_hard() -> dict[str, int]:
    """This process's hard limits, which podman's containers cannot exceed."""
    return {name: resource.getrlimit(number)[1] for name, number in NUMBERS.items()}


def may_raise(status: str) -> bool:
    """Whether /proc/PID/status lists CAP_SYS_RESOURCE in the bounding set."""
    for line in status.splitlines():
        if line.startswith("CapBnd:"):
            return bool(int(line.split()[1], 16) >> CAP_SYS_RESOURCE & 1)
    return False


def podman_options() -> list[str]:
    """The ulimit options for a node on this machine."""
    status = Path("/proc/self/status").read_text()
    chosen = choose(machine_hard(), may_raise(status))
    return [option for value in chosen for option in ("--ulimit", value)]

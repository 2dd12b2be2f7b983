"""Limit rule about processes and threads: which of several limits a fresh session meets first."""

import re
from collections.abc import Iterator
from shlex import quote

from gpu_node.drift.engine.finding import Severity
from gpu_node.drift.engine.rule import At, Fault, check
from gpu_node.drift.engine.subject import Limit
from gpu_node.drift.limits.pam_limits import deciding, lacking
from gpu_node.drift.limits.rules import too_low
from gpu_node.facts.limits.state import Ceiling, LimitsState
from gpu_node.inventories.wanted import LimitsWanted

# Proposed where the inventory names no number: 8 ranks with 8 DataLoader workers each, and 64
# OpenMP threads in each process, are 4,608 tasks, more than the 4096 of CentOS 7's 20-nproc.conf.
LEAST = 8192
_SLICE = re.compile(r"/([^/]+\.(?:slice|service|scope))/pids\.max$")


@check("limits.nproc")
def nproc(at: At) -> Iterator[Fault]:
    limits, expected = at.node.limits, at.wanted.limits
    if expected is not None and expected.nproc is not None:
        yield from too_low(limits, expected, "nproc")
        below = [task for task in limits.tasks or () if task.value < expected.nproc]
        for each in sorted(below, key=lambda one: one.value)[:1]:
            yield _ceiling(each, expected.nproc, None)
        return
    least = _least(limits)
    if least is not None and least.value < LEAST:
        yield _ceiling(least, LEAST, "warning") if least.place else _session(limits, least.value)


def _least(state: LimitsState) -> Ceiling | None:
    """Return the smallest limit of all; the session's own has no place."""
    all_of_them = [*(state.tasks or ())]
    if lacking(state, LimitsWanted.model_construct(nproc=LEAST), "nproc"):
        assert state.session is not None and state.session.nproc is not None
        soft = state.session.nproc.soft
        all_of_them.append(Ceiling(place="", value=LEAST if soft == "unlimited" else soft))
    return min(all_of_them, key=lambda each: each.value, default=None)


def _session(state: LimitsState, value: int) -> Fault:
    line = deciding(state, state.files or (), "nproc").get("soft")
    at = f", {line.path} line {line.line}: {line.domain} {line.kind} nproc" if line else ""
    return Fault(
        subject=Limit("nproc"),
        found=f"{value} (the soft limit of a session{at})",
        wanted=f"at least {LEAST} (proposed)",
        deploy=f"add limits: {{nproc: {LEAST}}} to the inventory, and the deploy sets it",
        fixable=False,
        severity="warning",
    )


def _ceiling(least: Ceiling, expected: int, severity: Severity | None) -> Fault:
    proposed = " (proposed)" if severity is not None else ""
    name, fix = _raised(least.place, expected)
    return Fault(
        subject=Limit("nproc", name),
        found=str(least.value),
        wanted=f"at least {expected}{proposed}",
        also=f"{least.place} is the smallest limit of processes and threads",
        fix=fix,
        fixable=False,
        severity=severity,
    )


def _raised(place: str, expected: int) -> tuple[str, str]:
    """Return what a limit is called, and the command that raises it."""
    if place.startswith("kernel."):
        key = f"sysctl: {{{place}: {expected}}}"
        return place, f"sysctl -w {place}={expected}, and {key} in the inventory"
    unit = _SLICE.search(place)
    if unit is None:
        return "pids.max", (
            f"start the container with --pids-limit={expected} (docker, podman); outside of a "
            f"container write {expected} to {quote(place)}"
        )
    return f"TasksMax of {unit[1]}", (
        f"systemctl set-property {quote(unit[1])} TasksMax={expected} (it acts at once and stays, "
        "without daemon-reload)"
    )

"""Host rules: processes killed for lack of memory, memory that runs out, a boot after a crash."""

from collections.abc import Iterator
from datetime import datetime, timezone

from gpu_node.drift import units
from gpu_node.drift.engine.finding import Severity
from gpu_node.drift.engine.rule import At, Fault, check
from gpu_node.drift.engine.subject import Thing
from gpu_node.drift.host.machine import RECENT, ago, is_container, is_machine
from gpu_node.facts.host.state import BootRow, Boots, Kill, Log, Memory, Swap
from gpu_node.inventories.plurals import counted

# Proposed, without a source. Pages that come back from swap are waited for: 1 MiB/s is 256 faults
# of 4 KiB in a second. `full` of PSI is time in which no process of the node got on.
_SWAPPED_IN = 1024**2
_STALLED = 10.0
_LEAST_AVAILABLE = 0.05
# The clock of a boot is set by NTP only later, and wtmp is written before that.
_SAME_BOOT = 600
# How many kills one text lists.
_MOST = 3


@check("host.oom-killed")
def oom_killed(at: At) -> Iterator[Fault]:
    memory, log = at.node.host.memory, at.node.host.log
    if memory is None:
        return
    if is_container(at.node):
        if memory.own_oom_kills:
            yield _oom_fault(f"{_times(memory.own_oom_kills)} in this container", None)
        return
    if not is_machine(at.node):
        return
    kills = log.kills if log is not None else ()
    count = max(memory.oom_kills or 0, log.count if log is not None else 0)
    if count:
        uptime = at.node.host.swap.uptime if at.node.host.swap else None
        yield _oom_fault(_killed(count, kills, log, uptime), _age(kills, count, uptime))


def _killed(count: int, kills: tuple[Kill, ...], log: Log | None, uptime: float | None) -> str:
    text = f"{_times(count)} since the boot"
    shown = [_kill(kill, uptime) for kill in reversed(kills[-_MOST:])]
    if shown:
        return f"{text}, the newest: {'; '.join(shown)}"
    why = "the kernel log does not show which: its beginning is lost"
    if log is None or log.denied:
        why = "only root can read in the kernel log which"
    return f"{text}; {why}"


def _times(count: int) -> str:
    return f"{counted(count, 'process', 'processes')} killed"


def _kill(kill: Kill, uptime: float | None) -> str:
    facts = [f"pid {kill.pid}"]
    facts += [units.size(kill.bytes)] if kill.bytes else []
    facts += ["at the limit of its cgroup"] if kill.in_group else []
    if kill.at is not None and uptime is not None:
        facts.append(ago(max(uptime - kill.at, 0)))
    return f"{kill.command} ({', '.join(facts)})"


def _age(kills: tuple[Kill, ...], count: int, uptime: float | None) -> float | None:
    """Return the seconds since the newest kill; None where that is unknown.

    No kill can be older than the boot; where the log has fewer than the kernel counted, the newest
    one of the log may not be the newest.
    """
    if uptime is None:
        return None
    if kills and kills[-1].at is not None and count <= len(kills):
        return max(uptime - kills[-1].at, 0)
    return None


def _oom_fault(found: str, age: float | None) -> Fault:
    severity: Severity | None = "info" if age is not None and age > RECENT else None
    return Fault(
        subject="OOM killer",
        found=found,
        wanted="no process killed for lack of memory",
        severity=severity,
    )


@check("host.memory-pressure")
def memory_pressure(at: At) -> Iterator[Fault]:
    memory = at.node.host.memory
    if memory is None or not is_machine(at.node):
        return
    signs = [
        sign
        for sign in (_swapping(at.node.host.swap, memory), _stalled(memory), _used_up(memory))
        if sign
    ]
    if signs:
        yield Fault(
            subject=Thing("memory"),
            found="; ".join(signs),
            wanted=f"no swap-in, all processes stalled less than {_STALLED:.0f} % of the time, "
            f"{_LEAST_AVAILABLE * 100:.0f} % of the memory available",
        )


def _swapping(before: Swap | None, memory: Memory) -> str:
    after = memory.swap
    if before is None or after is None or after.uptime <= before.uptime:
        return ""
    rate = (after.pages_in - before.pages_in) * memory.page / (after.uptime - before.uptime)
    used = units.size(memory.swap_total - memory.swap_free)
    if rate < _SWAPPED_IN:
        return ""
    return f"{rate / 1024**2:.0f} MiB/s come back from swap ({used} in use)"


def _stalled(memory: Memory) -> str:
    if memory.full is None or memory.full < _STALLED:
        return ""
    return f"all processes waited for memory {memory.full:.0f} % of the last minute (PSI)"


def _used_up(memory: Memory) -> str:
    if memory.available is None or memory.available >= memory.total * _LEAST_AVAILABLE:
        return ""
    return f"{units.size(memory.available)} of {units.size(memory.total)} available"


@check("host.unclean-boot")
def unclean_boot(at: At) -> Iterator[Fault]:
    boots = at.node.host.boots
    if boots is None or not is_machine(at.node) or boots.now is None or boots.uptime is None:
        return
    booted = boots.now - boots.uptime
    ended = _ended(boots, booted)
    if ended == "unclean":
        severity: Severity | None = "info" if boots.uptime > RECENT else None
        yield Fault(
            subject="last boot",
            found=f"booted {_moment(booted)} ({ago(boots.uptime)}) without a shutdown before it",
            wanted="a shutdown before each boot",
            severity=severity,
        )


def _ended(boots: Boots, booted: float) -> str:
    """Return how the boot before ended: clean, unclean, or empty where nothing shows it.

    A wtmp that is not written any more ends before this boot.
    """
    rows = list(boots.rows)
    while rows and not _is_this_boot(rows[0], booted):
        rows.pop(0)
    if len(rows) > 1:
        return "clean" if rows[1].kind == "shutdown" else "unclean"
    return boots.journal


def _is_this_boot(row: BootRow, booted: float) -> bool:
    return row.kind == "reboot" and abs(row.at - booted) <= _SAME_BOOT


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, tz=timezone.utc).strftime("%Y-%m-%d %H:%M UTC")

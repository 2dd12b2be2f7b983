"""Pre-flight of the machine: its system, who may change it, its space and its clock."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_node.drift.clock.rules import alone
from gpu_node.drift.preflight.row import Newcomer, Row, Verdict, unknown
from gpu_node.drift.tables import rows
from gpu_node.drift.units import size
from gpu_node.facts.ask.sudo import why_refused
from gpu_node.facts.clock import ClockState
from gpu_node.facts.preflight.newcomer import Space, System
from gpu_node.facts.preflight.state import NewcomerState

# Architectures: one that everything was tried on, and one that should do.
_TRIED, _UNTRIED = ("x86_64",), ("aarch64",)
# As many times as much as is needed at least.
_PLENTY = 3
# The headers of one kernel are 20000 files and more.
_INODES = 50_000
_MIB = 1024**2


def judged(found: NewcomerState, newcomer: Newcomer) -> Iterator[Row]:
    """Yield the rows about the machine."""
    yield from _system(found)
    yield _account(found)
    yield from _space(found)
    yield _clock(found, newcomer)


def _system(found: NewcomerState) -> Iterator[Row]:
    system = found.system
    if system is None:
        yield unknown("system", found.unreadable, "preflight.system", "stop")
        return
    yield _release(system)
    yield _architecture(system)


def _release(system: System) -> Row:
    shown = system.name or f"{system.id} {system.version}"
    known = {row["id"]: row for row in rows("systems.tsv")}
    row = known.get(system.id)
    if row is None:
        supported = ", ".join(
            f"{each['name']} {each['first']}"
            + (f" to {each['last']}" if each["last"] != each["first"] else "")
            for each in known.values()
        )
        return Row("system", shown, "stop", "no step supports it", f"use one of: {supported}")
    version = _numbers(system.version)
    if version and version < _numbers(row["first"]):
        why = f"{row['name']} {row['first']} is the oldest that the steps support"
        return Row("system", shown, "stop", why, "install a newer release")
    if not version or version[: len(_numbers(row["last"]))] > _numbers(row["last"]):
        why = f"{row['name']} {row['last']} is the newest that was tested"
        return Row("system", shown, "warning", why, "check the dry run carefully")
    return Row("system", shown)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdecimal())


def _architecture(system: System) -> Row:
    if system.machine in _TRIED:
        return Row("architecture", system.machine)
    if system.machine in _UNTRIED:
        why = "it was not tested, and it needs other files of cmake and NCCL"
        fix = "name those of this architecture in the inventory"
        return Row("architecture", system.machine, "warning", why, fix)
    allowed = ", ".join((*_TRIED, *_UNTRIED))
    why = f"there is no driver and no NCCL for it; allowed are {allowed}"
    return Row("architecture", system.machine, "stop", why)


def _account(found: NewcomerState) -> Row:
    account = found.account
    if account is None:
        return unknown("rights", found.unreadable, "preflight.account", "stop")
    if account.uid == 0:
        return Row("rights", account.user)
    if account.sudo == "works":
        return Row("rights", f"{account.user}, with sudo")
    refused = why_refused(account.sudo or "", account.user)
    shown = f"{account.user}, sudo: {refused.words}"
    return Row("rights", shown, "stop", f"a deploy becomes root: {refused.reason}", refused.fix)


def _space(found: NewcomerState) -> Iterator[Row]:
    """Yield a row for each file system; what is needed on it adds up."""
    if found.space is None:
        yield unknown("disk space", found.unreadable, "preflight.space", "stop")
        return
    mounts = dict.fromkeys(each.mount for each in found.space)
    for mount in mounts:
        yield _mount(mount, [each for each in found.space if each.mount == mount])


def _mount(mount: str, paths: list[Space]) -> Row:
    mib = {row["path"]: int(row["mib"]) for row in rows("space.tsv")}
    need = sum(mib.get(each.path, 0) for each in paths) * _MIB
    first = paths[0]
    below = ", ".join(each.path for each in paths if each.path != mount)
    subject = f"space on {mount}"
    shown = f"{size(first.free)} free" + (f" (with {below})" if below else "")
    if first.read_only and need:
        why = "it is mounted read-only: nothing can be installed"
        fix = f"look in dmesg for a broken disk, then: mount -o remount,rw {mount}"
        return Row(subject, f"{shown}, read-only", "stop", why, fix)
    if first.free < max(need, _MIB):
        why = f"packages, headers and builds may need {size(need)} there" if need else "it is full"
        return Row(subject, shown, "stop", why, f"make room on {mount}: du -xh {mount} | sort -h")
    if first.inodes is not None and first.inodes < _INODES and need:
        shown = f"{first.inodes} inodes free"
        why = f"a kernel's headers alone are 20000 files; at least {_INODES} should be free"
        return Row(subject, shown, "stop", why, f"make room on {mount}: du --inodes -x {mount}")
    if first.free < _PLENTY * need:
        why = f"{size(need)} may be needed there, and more for updates"
        return Row(subject, shown, "warning", why, f"make room on {mount}")
    return Row(subject, shown)


def _clock(found: NewcomerState, newcomer: Newcomer) -> Row:
    """Judge the clock by the rule for nodes; `date +%s` has no fractions."""
    if found.begin is None or found.end is None:
        return unknown("clock", found.unreadable, "preflight.begin")
    times = {"begin": found.begin, "end": found.end, "step": 1}
    fault = alone(ClockState(**times, asked=newcomer.asked, answered=newcomer.answered))
    if fault is None:
        return Row("clock", "the same as here")
    verdict: Verdict = "stop" if fault.severity == "error" else "warning"
    return Row("clock", fault.found, verdict, fault.cause, fault.fix)

"""Daemons that start what launchers start, sshd and slurmd: their limits, and their units."""

import re
from typing import Literal

from gpu_node.facts.limits.session import Session, parse_session
from gpu_node.facts.probe.base import State
from gpu_node.facts.probe.lines import lines_of
from gpu_node.facts.probe.protocol import Section, Unreadable
from gpu_node.facts.probe.shell import shell

SECTION = Section("limits.services", shell("limits/services"), root=True, light=True)
_HEAD = re.compile(r"service (sshd|slurmd) (-|[A-Za-z0-9@_.\\-]{1,100}\.service)")
_SET = re.compile(r"unit (/[^:]{1,255}):(\d{1,4}):\s*Limit([A-Z]+)\s*=\s*(.*)")
# The capabilities that it may have at most, and the first line of its uid_map: root of the machine
# itself is in a user namespace that maps all uids to themselves.
_BOUNDS = re.compile(r"^bounds ([0-9a-f]{1,16})\s+(\d+)\s+(\d+)\s+(\d+)$", re.MULTILINE)
_ALL_UIDS = ("0", "0", "4294967295")
# Bit of CAP_SYS_RESOURCE in a capability mask (linux/capability.h): needed to raise a hard limit.
_CAP_SYS_RESOURCE = 24
_MOST_LINES = 100


class UnitLine(State):
    """A line of a unit or of a drop-in that sets a limit: `value` as it is written."""

    path: str
    line: int
    item: str
    value: str


class Service(State):
    """A daemon: its systemd unit (empty: systemd does not run it), and the text of its limits.

    `raises`: whether it may give more than its own hard limits; None where that is unknown.
    """

    name: Literal["sshd", "slurmd"]
    unit: str
    limits: Session
    lines: tuple[UnitLine, ...] = ()
    raises: bool | None = None


def parse(text: str) -> tuple[Service, ...]:
    """Parse what services.sh prints."""
    parts = re.split(r"^(?=service )", text, flags=re.MULTILINE)
    return tuple(_service(part) for part in parts if part.strip())


def _service(text: str) -> Service:
    first, _, rest = text.partition("\n")
    head = _HEAD.fullmatch(first)
    if head is None:
        raise Unreadable(f"not a service: {first[:80]!r}")
    rows = [_SET.fullmatch(line) for line in lines_of(rest) if line.startswith("unit ")]
    lines = tuple(
        UnitLine(path=row[1], line=int(row[2]), item=row[3].lower(), value=row[4].strip())
        for row in rows[:_MOST_LINES]
        if row is not None
    )
    unit = "" if head[2] == "-" else head[2]
    bounds = _BOUNDS.search(rest)
    raises = bounds and (
        bool(int(bounds[1], 16) >> _CAP_SYS_RESOURCE & 1) and bounds.groups()[1:] == _ALL_UIDS
    )
    return Service.model_validate(
        {"name": head[1], "unit": unit, "limits": parse_session(rest), "lines": lines}
        | {"raises": raises}
    )

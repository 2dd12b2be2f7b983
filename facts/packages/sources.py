"""Package sources: which repositories a server takes its packages from, and whether they answer.

Nothing of the system's is written: each repository's index goes into a folder that is removed.
"""

from __future__ import annotations

from typing import Literal

from gpu_node.facts.nccl.libnccl import SECTIONS as NCCL
from gpu_node.facts.nccl.libnccl import Manager, parse_manager
from gpu_node.facts.probe.base import State
from gpu_node.facts.probe.protocol import Readings, Section
from gpu_node.facts.probe.redaction import without_users
from gpu_node.facts.probe.shell import shell

# One file of a repository, and all of them side by side.
FETCH_SECONDS, SECONDS = 15, 60

HELD = shell("packages/held")
_SOURCES = (
    shell("packages/apt", limit=FETCH_SECONDS)
    + shell("packages/rpm")
    + shell("packages/sources", limit=FETCH_SECONDS)
)
_MANAGER = next(each for each in NCCL if each.name == "nccl.manager")
SECTIONS = (
    _MANAGER,
    Section("preflight.held", HELD),
    Section("preflight.sources", _SOURCES, seconds=SECONDS),
)


class Held(State):
    """A lock of the package manager that a process holds."""

    file: str
    pid: int
    command: str


class PackageSource(State):
    """A repository, by its address (apt) or id (yum, dnf), whether it answers, and why not."""

    name: str
    state: Literal["ok", "bad", "unknown"]
    why: str


def parse_held(text: str) -> tuple[Held, ...]:
    """Parse a file, a pid and a command a line; tabs part them."""
    rows = [line.split("\t") for line in text.splitlines()]
    return tuple(Held(file=file, pid=int(pid), command=name) for file, pid, name in rows)


def parse_sources(text: str) -> tuple[PackageSource, ...]:
    """Parse `ok|bad|unknown`, a name and a reason a line; tabs part them.

    A user and a password in an address are left out.
    """
    rows = [
        without_users(line).replace("://...@", "://").split("\t", 2) for line in text.splitlines()
    ]
    found = [{"state": state, "name": name, "why": why} for state, name, why in rows]
    return tuple(PackageSource.model_validate(each) for each in found)


class Packages(State):
    """What installs packages, who keeps it from doing so, and where they come from."""

    manager: Manager | None
    held: tuple[Held, ...] | None
    sources: tuple[PackageSource, ...] | None


def parse(readings: Readings) -> Packages:
    """Return the state from the sections about packages."""
    return Packages(
        manager=readings.take("nccl.manager", parse_manager),
        held=readings.take("preflight.held", parse_held),
        sources=readings.take("preflight.sources", parse_sources),
    )

"""libnccl of the system: its packages, how the loader finds it, and the programs that load it."""

import re
from typing import Literal

from gpu_node.facts.env.start_files import LINES
from gpu_node.facts.packages import locks as package_locks
from gpu_node.facts.packages.locks import Hold, LockLine
from gpu_node.facts.probe import checked, owner
from gpu_node.facts.probe.base import Parsers, State
from gpu_node.facts.probe.lines import lines_of
from gpu_node.facts.probe.protocol import Section
from gpu_node.facts.probe.readers import lines
from gpu_node.facts.probe.redaction import SHARED as HIDE
from gpu_node.facts.probe.shell import assigned, shell

# NVIDIA's packages.
RPM = ("libnccl", "libnccl-devel", "libnccl-static")
DEB = ("libnccl2", "libnccl-dev")


SECTIONS = (
    Section("nccl.packages", shell("nccl/packages"), light=True),
    Section("nccl.manager", shell("nccl/manager"), light=True),
    package_locks.SECTION,
    Section(
        "nccl.files",
        assigned(rpm=" ".join(RPM), deb=" ".join(DEB)) + shell("nccl/files"),
        seconds=20,
        light=True,
    ),
    Section("nccl.loader", shell("nccl/loader"), light=True),
    Section("nccl.settings", shell("nccl/settings"), shared=(HIDE, LINES), light=True),
    Section("nccl.programs", shell("nccl/programs"), shared=(owner.SHARED,)),
    Section("nccl.gpus", shell("nccl/gpus"), light=True),
)


Manager = Literal["apt-get", "dnf", "yum", "none"]
_manager = checked.Form("a package manager", re.compile(r"apt-get|dnf|yum|none"))


class Package(State):
    """A libnccl package of the system: `version` with its release, as in 2.18.1-1+cuda12.1."""

    kind: Literal["rpm", "deb"]
    name: str
    version: str
    arch: str
    held: bool


class Loader(State):
    """What decides where a library is found: the shell's variables, and ld.so.cache in order."""

    library_path: str
    preload: str
    cache: tuple[str, ...]


class Program(State):
    """A program outside of all environments, and the libnccl that it loads."""

    path: str
    loads: str


def parse_packages(text: str) -> tuple[Package, ...]:
    """Parse `KIND name version arch status`; a deb that is only configured is not there.

    They are sorted: rpm prints them in the order of its database, which differs between nodes.
    """
    rows = sorted(line.split() for line in lines_of(text) if line.strip())
    return tuple(
        Package.model_validate(
            {"kind": kind, "name": name, "version": version, "arch": arch}
            | {"held": status.startswith("h")}
        )
        for kind, name, version, arch, status in rows
        if kind == "rpm" or status[1:2] == "i"
    )


def parse_loader(text: str) -> Loader:
    """Parse LD_LIBRARY_PATH, LD_PRELOAD, then lines of one path."""
    library_path, preload, *cache = [*text.split("\n"), "", ""][: max(2, text.count("\n") + 1)]
    return Loader(library_path=library_path, preload=preload, cache=tuple(filter(None, cache)))


def parse_programs(text: str) -> tuple[Program, ...]:
    """Parse lines of a program and the library it loads; one in two places counts once."""
    rows = lines_of(text)
    pairs = dict(zip(rows[::2], rows[1::2], strict=True))
    return tuple(Program(path=path, loads=loads) for path, loads in pairs.items())


class SystemState(State):
    """The system's part of the area.

    `manager` is the package manager (none: unknown), `locks` are versionlock's lines, `lock_lines`
    all lines that hold packages back, `holds` those in our note, `has_repository` whether one of
    our runs added its repository, `files` the missing or changed files of the packages, `settings`
    the lines of start files that set variables of the loader, as PATH:LINE: TEXT, and `gpus` the
    models that the driver reports: none if it is not loaded.
    """

    packages: tuple[Package, ...] | None
    manager: Manager | None
    locks: tuple[str, ...] | None
    lock_lines: tuple[LockLine, ...] | None
    holds: tuple[Hold, ...] | None
    has_repository: bool | None
    files: tuple[str, ...] | None
    loader: Loader | None
    settings: tuple[str, ...] | None
    programs: tuple[Program, ...] | None
    gpus: tuple[str, ...] | None


def _locks(text: str) -> tuple[object, ...]:
    """Return the values of the fields about what holds packages back."""
    state = package_locks.parse(text)
    locks = tuple(line.text for line in state.lines if line.kind == "versionlock")
    return locks, state.lines, state.holds, state.has_repository


PARSERS: Parsers = {
    "nccl.locks": ("locks lock_lines holds has_repository", _locks),
    "nccl.packages": ("packages", parse_packages),
    "nccl.manager": ("manager", lambda text: _manager(text.strip())),
    "nccl.files": ("files", lines),
    "nccl.loader": ("loader", parse_loader),
    "nccl.settings": ("settings", lines),
    "nccl.programs": ("programs", parse_programs),
    "nccl.gpus": ("gpus", lines),
}

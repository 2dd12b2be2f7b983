"""Toolchain: the operating system and kernel, every cmake in PATH, and what builds find."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import Field

from gpu_node.facts.probe import owner
from gpu_node.facts.probe.base import AreaFact, Parsers, State
from gpu_node.facts.probe.protocol import Section, Unreadable
from gpu_node.facts.probe.readers import line, pairs
from gpu_node.facts.probe.request import ProbeRequest
from gpu_node.facts.probe.shell import shell
from gpu_node.facts.toolchain import build
from gpu_node.facts.toolchain import versions as tools
from gpu_node.facts.toolchain.build import Build

# Where the deploy puts links to a release's programs, which are in a folder of /opt.
LINK_DIR = "/usr/local/bin"

_OF_NODE = (
    Section("toolchain.os", shell("toolchain/os"), light=True),
    Section("toolchain.kernel", "uname -r", light=True),
    Section("toolchain.platform", shell("toolchain/platform"), light=True),
    Section(
        "toolchain.cmake",
        shell("toolchain/cmake", link_dir=LINK_DIR),
        seconds=5,
        shared=(owner.SHARED,),
    ),
    tools.SECTION,
)


def sections(request: ProbeRequest) -> tuple[Section, ...]:
    """Return the sections about the node, and about the training user's builds."""
    return (*_OF_NODE, build.section(request))


_KINDS = ("taken", "release")
_VERSION = re.compile(r"^cmake\d* version ([0-9]{1,9}(?:\.[0-9]{1,9}){1,5})(?![0-9])")


class Cmake(State):
    """A cmake in PATH, its real file, and its version (None: `output` shows none)."""

    path: str
    real: str
    version: str | None
    output: str


class Cmakes(State):
    """The directories of PATH, and the cmakes in them in the order the shell finds them.

    `taken` are paths of the deploy's links where something else exists, `releases` the folders
    /opt/cmake-VERSION.
    """

    path: tuple[str, ...]
    found: tuple[Cmake, ...]
    taken: tuple[str, ...] = ()
    releases: tuple[str, ...] = ()


class Platform(State):
    """What decides which wheels a node takes: `uname -m`, and glibc (2.17; None: has another)."""

    machine: Annotated[str, Field(pattern=r"^[A-Za-z0-9_]{1,32}$")]
    glibc: Annotated[str, Field(pattern=r"^[0-9]{1,3}\.[0-9]{1,3}(\.[0-9]{1,3})?$")] | None


class ToolchainState(State):
    """Everything about the build tools that rules use."""

    os: str | None
    kernel: str | None
    platform: Platform | None = None
    cmake: Cmakes | None
    build: Build | None = None
    versions: tools.Versions | None


def parse_platform(text: str) -> Platform:
    """Parse `machine NAME`, and `glibc VERSION` where that is the C library."""
    words = pairs(text)
    if "machine" not in words:
        raise Unreadable("no machine: uname -m printed nothing")
    return Platform(machine=words["machine"], glibc=words.get("glibc"))


def parse_cmake(text: str) -> Cmakes:
    """Parse PATH, then three lines for each cmake: path, real path, first line of `--version`.

    Then follow the taken paths and the releases, one in each line.
    """
    path, *rest = text.split("\n")
    rows = [each.split("\t", 1) for each in rest]
    taken, releases = ([row[1] for row in rows if row[0] == kind and row[1:]] for kind in _KINDS)
    lines = [each for each in rest if not each.startswith(tuple(f"{kind}\t" for kind in _KINDS))]
    if len(lines) % 3:
        raise Unreadable(f"{len(lines)} lines about cmake, not three each")
    triples = zip(lines[::3], lines[1::3], lines[2::3], strict=True)
    folders = tuple(_plain(folder) or "." for folder in path.split(":"))
    return Cmakes(
        path=folders,
        found=tuple(_distinct(triples)),
        taken=tuple(taken),
        releases=tuple(releases),
    )


def _plain(path: str) -> str:
    """Return a path without redundant slashes: /usr/local/bin/ is /usr/local/bin."""
    return re.sub(r"/+", "/", path).removesuffix("/") or path[:1]


def _distinct(triples: zip[tuple[str, str, str]]) -> list[Cmake]:
    """Return each file once, where PATH first reaches it (/bin is /usr/bin on merged systems)."""
    cmakes: dict[str, Cmake] = {}
    for path, real, output in triples:
        match = _VERSION.match(output)
        version = match[1] if match else None
        cmakes.setdefault(real, Cmake(path=_plain(path), real=real, version=version, output=output))
    return list(cmakes.values())


PARSERS: Parsers = {
    "toolchain.os": ("os", line),
    "toolchain.kernel": ("kernel", line),
    "toolchain.platform": ("platform", parse_platform),
    "toolchain.cmake": ("cmake", parse_cmake),
    build.NAME: ("build", build.parse),
    tools.NAME: ("versions", tools.parse),
}


class Toolchain(AreaFact):
    """Returns `ToolchainState` as a dict: {"os": "CentOS Linux 7 (Core)", "cmake": {...}, ...}."""

    sections_for = staticmethod(sections)
    state = ToolchainState
    parsers = PARSERS

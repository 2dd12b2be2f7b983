"""Package locks: the lines that hold packages back, and our note of those that we wrote."""

import re
from typing import Literal

from gpu_node.facts.probe.base import State
from gpu_node.facts.probe.lines import lines_of
from gpu_node.facts.probe.protocol import Section
from gpu_node.facts.probe.readers import Columns, by_word
from gpu_node.facts.probe.shell import assigned, shell

# The holds of the deploy, one line for each package: NAME VERSION RUN.
NOTE = "/var/lib/gpu-node/holds"
# Only the deploy writes these two.
_REPOSITORIES = (
    "/etc/yum.repos.d/gpu-node-cuda.repo",
    "/etc/apt/sources.list.d/gpu-node-cuda.sources",
)

# A repository's file with a password can be read only by root.
SECTION = Section(
    "nccl.locks",
    assigned(note=NOTE, repositories=" ".join(_REPOSITORIES))
    + shell("packages/lock_files")
    + shell("packages/locks"),
    root=True,
    light=True,
)


# [EPOCH:]NAME-[EPOCH:]VERSION[-RELEASE]; a version begins with a digit or a pattern.
_ENTRY = re.compile(r"(?:\d+:)?(?P<name>.+?)-(?:\d+:)?(?P<version>[\d*?\[].*)", re.DOTALL)


class LockLine(State):
    """A line that holds packages back; `names` are patterns of packages.

    `version` is versionlock's pattern of the allowed version, or the target of a pin of apt
    ("version 2.18.*"). `denies`: the line excludes that version instead. `scope` is the repository
    of an exclude= ("main": all). `priority` is that of a pin. `comment` was written by a person; it
    is empty for lines of tools.
    """

    kind: Literal["versionlock", "exclude", "pin"]
    file: str
    line: int
    text: str
    names: tuple[str, ...]
    version: str
    denies: bool = False
    scope: str = "main"
    priority: int | None = None
    comment: str


class Hold(State):
    """A hold that one of our runs wrote: package, version and the run's name."""

    package: str
    version: str
    run: str


class Locks(State):
    """What holds packages back: lines, our note, and whether the file of our repository exists."""

    lines: tuple[LockLine, ...]
    holds: tuple[Hold, ...]
    has_repository: bool


def _of_people(comment: str) -> str:
    """Return a comment without its `#`; dnf's comments ("Added lock on ...") are left out."""
    text = comment.strip().lstrip("#").strip()
    return "" if text.startswith(("Added lock", "Added exclude")) else text


_HOLD = Columns(Hold, "package version run")
_VERSIONLOCK = Columns(LockLine, "file line text comment", text=str.strip, comment=_of_people)
_EXCLUDE = Columns(LockLine, "file line scope text")
_PIN = Columns(
    LockLine,
    "file line text version priority comment names",
    priority=lambda text: int(text) if text.lstrip("-").isdecimal() else None,
    comment=str.strip,
)


def parse(text: str) -> Locks:
    """Parse one row for each line: its kind first, then fields, separated by tabs."""
    lines: list[LockLine] = []
    known = {"versionlock": _versionlock, "exclude": _exclude, "pin": _pin}
    for line in filter(None, lines_of(text)):
        kind, _, rest = line.partition("\t")
        if kind in known:
            lines.append(known[kind](rest))
    rows = by_word(text, "\t", "versionlock exclude pin note repository")
    holds = tuple(map(_HOLD.row, rows["note"]))
    return Locks(lines=tuple(lines), holds=holds, has_repository="repository" in rows)


def name_and_version(text: str) -> tuple[str, str]:
    """Return name and version of dnf's libnccl-0:2.18.1-1.* or yum's 0:libnccl-2.18.1-1.*.

    The epoch and the final `.*` are left out; a name alone has no version.
    """
    match = _ENTRY.fullmatch(text)
    return (match["name"], match["version"].removesuffix(".*")) if match else (text, "")


def _versionlock(row: str) -> LockLine:
    entry = row.split("\t")[2].strip()
    name, version = name_and_version(entry.removeprefix("!"))
    fields = {"kind": "versionlock", "names": (name,), "version": version}
    return _VERSIONLOCK.row(row, denies=entry.startswith("!"), **fields)


def _exclude(row: str) -> LockLine:
    patterns = row.split("\t")[3]
    names, text = tuple(patterns.replace(",", " ").split()), f"exclude={patterns.strip()}"
    fields = {"kind": "exclude", "names": names, "text": text, "version": "", "comment": ""}
    return _EXCLUDE.row(row, denies=True, **fields)


def _pin(row: str) -> LockLine:
    packages, pin, priority = row.split("\t")[2:5]
    text = f"Package: {packages}, Pin: {pin}, Pin-Priority: {priority}"
    return _PIN.row(row, kind="pin", text=text)

"""Package locks: the lines that hold packages back, and our note of those that we wrote."""

import re
from collections.abc import Callable
from typing import Literal

from gpu_node.facts.probe.base import State
from gpu_node.facts.probe.lines import lines_of
from gpu_node.facts.probe.protocol import Section, Unreadable
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


def parse(text: str) -> Locks:
    """Parse one row for each line: its kind first, then fields, separated by tabs."""
    rows = [line.split("\t") for line in lines_of(text) if line]
    known: dict[str, Callable[..., LockLine]] = {
        "versionlock": _versionlock,
        "exclude": _exclude,
        "pin": _pin,
    }
    lines = [known[row[0]](*row[1:]) for row in rows if row[0] in known]
    holds = [Hold(package=row[1], version=row[2], run=row[3]) for row in rows if row[0] == "note"]
    strange = {row[0] for row in rows} - {*known, "note", "repository"}
    if strange:
        raise Unreadable(f"not understood: {sorted(strange)}")
    return Locks(lines=tuple(lines), holds=tuple(holds), has_repository=["repository"] in rows)


def name_and_version(text: str) -> tuple[str, str]:
    """Return name and version of dnf's libnccl-0:2.18.1-1.* or yum's 0:libnccl-2.18.1-1.*.

    The epoch and the final `.*` are left out; a name alone has no version.
    """
    match = _ENTRY.fullmatch(text)
    return (match["name"], match["version"].removesuffix(".*")) if match else (text, "")


def _versionlock(file: str, line: str, text: str, comment: str) -> LockLine:
    entry = text.strip()
    name, version = name_and_version(entry.removeprefix("!"))
    return LockLine(
        kind="versionlock",
        file=file,
        line=int(line),
        text=entry,
        names=(name,),
        version=version,
        denies=entry.startswith("!"),
        comment=_of_people(comment),
    )


def _of_people(comment: str) -> str:
    """Return a comment without its `#`; dnf's comments ("Added lock on ...") are left out."""
    text = comment.strip().lstrip("#").strip()
    return "" if text.startswith(("Added lock", "Added exclude")) else text


def _exclude(file: str, line: str, scope: str, patterns: str) -> LockLine:
    return LockLine(
        kind="exclude",
        file=file,
        line=int(line),
        text=f"exclude={patterns.strip()}",
        names=tuple(patterns.replace(",", " ").split()),
        version="",
        denies=True,
        scope=scope,
        comment="",
    )


def _pin(
    file: str, line: str, packages: str, pin: str, priority: str, comment: str, names: str
) -> LockLine:
    return LockLine(
        kind="pin",
        file=file,
        line=int(line),
        text=f"Package: {packages}, Pin: {pin}, Pin-Priority: {priority}",
        names=tuple(names.split()),
        version=pin,
        priority=int(priority) if priority.lstrip("-").isdigit() else None,
        comment=comment.strip(),
    )

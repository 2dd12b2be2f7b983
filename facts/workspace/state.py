"""Workspace: directories with owner and mode, and the files of the workspace as rsync counts them.

rsync itself lists the files, so that its patterns mean here what they mean when it copies; the list
of 20,000 files travels compressed. What rsync would not copy (pipes, sockets, devices) is no file,
and is named all the same: `--delete` takes it away. Of a directory the mode alone counts: its time
changes with every file in it.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
import shlex
import zlib
from collections.abc import Sequence
from typing import Any

from typing_extensions import override

from facts import mounts
from facts.area import AreaFact, SectionFact, State
from facts.file_systems import SHARED, USE, Place, parse_places
from facts.named import Named
from facts.probe import Readings, Section, Unreadable

# Where a file waits whose transfer was cut off, in the folder that it belongs to.
PARTIAL = ".gpu-node-partial"
TREE_SECONDS = 120
# The codes with which rsync ends where files went away meanwhile, as those of a running job do.
_ENDED_WELL = ("0", "24")

_RSYNC = "rsync --version 2>/dev/null | head -n 1"
_DIRECTORIES = """
for path in {paths}; do
  said=$(stat -L -c '%a|%U|%G|%F' "$path" 2>&1) || said="? $said"
  printf '%s\\t%s\\n' "$path" "$said"
done
"""
_TREE = """
path={path}
{mounts}mounts "$path"
[ -d "$path/" ] || {{
  ls -ld "$path/" 2>&1 | grep -q 'Permission denied' && {{ echo "$path is closed"; exit 1; }}
  echo absent; exit 0
}}
command -v rsync >/dev/null 2>&1 || {{ echo unlisted; exit 0; }}
code() {{ if command -v base64 >/dev/null; then base64; else od -An -v -tx1; fi; }}
TZ=UTC; export TZ
command -v base64 >/dev/null && echo base64 || echo hex
{{ {listing} "$path/" 2>&1; echo "end $?"; }} | gzip -c | code
"""
PLACES_SECTION = "workspace.places"
_LIES = """if [ -e "$each" ]; then places "$each"; else above "$each"; fi
"""
RSYNC = Section("workspace.rsync", _RSYNC)
SECTIONS = (RSYNC,)


def listing(excludes: Sequence[str]) -> list[str]:
    """Return the command that lists a folder, less what is excluded; the folder comes last."""
    return ["rsync", "-rl", "--list-only", "--no-h", *excluding(excludes)]


def excluding(excludes: Sequence[str]) -> list[str]:
    """Return rsync's options that leave out what is excluded, and what a cut-off copy has left."""
    return [f"--exclude={pattern}" for pattern in (PARTIAL, *excludes)]


def sections(named: Named) -> tuple[Section, ...]:
    """Return the sections about what an inventory names: directories, and the workspace."""
    found = [RSYNC]
    if named.directories:
        found.append(_directories(named.directories))
    if named.workspace is not None:
        found += [_tree(path, named.workspace.excludes) for path in named.workspace.paths]
        words = " ".join(map(shlex.quote, named.workspace.paths))
        lies = f"{USE}for each in {words}; do\n{_LIES}done"
        found.append(Section(PLACES_SECTION, lies, shared=SHARED))
    return tuple(found)


def _directories(paths: Sequence[str]) -> Section:
    words = " ".join(map(shlex.quote, paths))
    return Section("workspace.directories", _DIRECTORIES.format(paths=words))


def _tree(path: str, excludes: Sequence[str]) -> Section:
    words = shlex.join(listing(excludes))
    command = _TREE.format(path=shlex.quote(path), listing=words, mounts=mounts.ASK)
    return Section(section_of(path), command, TREE_SECONDS)


def section_of(path: str) -> str:
    """Return the name of the section about a workspace at a path."""
    return f"workspace.files:{path}"


class Directory(State):
    """A directory, or what is in its place; `problem` says why it could not be looked at."""

    exists: bool
    is_directory: bool = False
    mode: str = ""
    owner: str = ""
    group: str = ""
    problem: str = ""


class Tree(State):
    """The files below a folder: their number and bytes, and the list of them, compressed.

    `digest` is of the list, and empty where there is no rsync to make one. `unmounted` is the mount
    point in /etc/fstab that the folder is below, or is, where nothing is mounted there. `is_mount`:
    the folder is a mount point.
    """

    exists: bool
    files: int = 0
    bytes: int = 0
    digest: str = ""
    packed: str = ""
    unmounted: str = ""
    is_mount: bool = False

    @property
    def entries(self) -> dict[str, str]:
        """Every path with what rsync compares of it: kind, mode, size and time, or target.

        Of what is `SPECIAL` it is the kind alone.
        """
        text = zlib.decompress(base64.b64decode(self.packed)).decode() if self.packed else ""
        pairs = (line.rpartition("\t") for line in text.splitlines())
        return {path: rest for path, _, rest in pairs}


class WorkspaceState(State):
    """The node's rsync ("" for none), directories, and trees by their path.

    `source` is the controller's tree, where that is the source, and `source_rsync` its rsync.
    """

    rsync: str | None
    directories: dict[str, Directory] | None
    trees: dict[str, Tree | None]
    # Where the workspace lies.
    places: dict[str, Place] | None = None
    source: Tree | None = None
    source_rsync: str | None = None


def parse_rsync(text: str) -> str:
    """Parse the first line of `rsync --version`."""
    found = re.match(r"rsync +version v?(\S+)", text)
    if found is None and text.strip():
        raise Unreadable(f"{text.strip()!r} is no version of rsync")
    return found[1] if found else ""


def parse_directories(text: str) -> dict[str, Directory]:
    """Parse a path and `mode|owner|group|kind` a line, or what stat(1) had to say instead."""
    lines = (line.partition("\t") for line in text.splitlines())
    return {path: _directory(said) for path, _, said in lines}


def _directory(said: str) -> Directory:
    if said.startswith("? "):
        absent = "No such file" in said or "Not a directory" in said
        return Directory(exists=False, problem="" if absent else said.removeprefix("? "))
    mode, owner, group, kind = said.split("|", 3)
    return Directory(
        exists=True, is_directory=kind == "directory", mode=mode, owner=owner, group=group
    )


def parse_tree(text: str) -> Tree:
    """Parse what `mounts` prints, then `absent`, `unlisted`, or the coded list of the files."""
    mount, rest = mounts.parse(text)
    kind, _, coded = rest.partition("\n")
    if kind in ("absent", "unlisted"):
        return Tree(exists=kind == "unlisted").model_copy(update=mount)
    try:
        packed = base64.b64decode(coded) if kind == "base64" else bytes.fromhex(coded)
        listed = zlib.decompress(packed, wbits=zlib.MAX_WBITS | 16)
    except (ValueError, binascii.Error, zlib.error) as error:
        raise Unreadable(f"the list of files is broken: {error}") from error
    return tree(listed.decode("ascii", "backslashreplace")).model_copy(update=mount)


def tree(listed: str) -> Tree:
    """Return the tree that the output of `listing` and a line `end CODE` tell."""
    *lines, end = listed.splitlines() or [""]
    code = end.removeprefix("end ")
    if code not in _ENDED_WELL:
        said = [line for line in lines if line.startswith(("rsync:", "rsync error"))]
        raise Unreadable(f"rsync ended with {code}: {said[0] if said else 'it was cut off'}")
    found = [entry for line in lines if (entry := _entry(line)) is not None]
    text = "\n".join(sorted(f"{path}\t{rest}" for path, rest, _ in found))
    sizes = [size for _, _, size in found if size is not None]
    return Tree(
        exists=True,
        files=len(sizes),
        bytes=sum(sizes),
        digest=hashlib.sha256(text.encode()).hexdigest(),
        packed=base64.b64encode(zlib.compress(text.encode(), 6)).decode("ascii"),
    )


# Pipes, sockets and devices, which are not sent.
SPECIAL = frozenset("pscb")
# A line of rsync's: kind and mode, size, date, time, path.
_LINE = re.compile(r"([-dlpscb])([-rwxsStT]{9})\S* +(\d+) (\d{4}/\d\d/\d\d) (\d\d:\d\d:\d\d) (.*)")


def _entry(line: str) -> tuple[str, str, int | None] | None:
    """Return path, what is compared, and a file's bytes; None for what is no entry."""
    found = _LINE.fullmatch(line)
    # The folder's own mode is what `directories` says, where anybody says it.
    if found is None or found[6] == ".":
        return None
    kind, mode, size, day, time, path = found.groups()
    if kind == "d":
        return path, f"d {mode}", None
    if kind == "l":
        name, _, target = path.partition(" -> ")
        return name, f"l {target}", None
    if kind in SPECIAL:
        return path, kind, None
    return path, f"- {mode} {size} {day} {time}", int(size)


def parse(readings: Readings) -> WorkspaceState:
    """Return the area's state from the probe's answers."""
    prefix, asked = section_of(""), "workspace.directories"
    paths = [name.removeprefix(prefix) for name in readings.sections if name.startswith(prefix)]
    named = asked in readings.sections
    return WorkspaceState(
        rsync=readings.take(RSYNC.name, parse_rsync),
        directories=readings.take(asked, parse_directories) if named else {},
        trees={path: readings.take(section_of(path), parse_tree) for path in paths},
        places=readings.take(PLACES_SECTION, parse_places)
        if PLACES_SECTION in readings.sections
        else None,
    )


class Workspace(AreaFact):
    """Returns `WorkspaceState` as a dict: {"rsync": "3.1.2", "directories": {...}, "trees": {}}."""

    sections = SECTIONS
    parse = staticmethod(parse)

    @override
    def sections_for(self, named: Named) -> Sequence[Section]:
        return sections(named)


class FolderFact(SectionFact):
    """Returns `Directory` as a dict: {"exists": True, "mode": "775", "owner": "train", ...}."""

    @staticmethod
    @override
    def default() -> dict[str, Any]:
        return Directory(exists=False, problem="no answer").model_dump(mode="json")

    @override
    def command(self, path: str) -> str:
        return self.asking(_directories([path]))

    @override
    def process(self, output: list[str]) -> dict[str, Any]:
        return self.told(output, lambda text: next(iter(parse_directories(text).values())))


class FilesFact(SectionFact):
    """Returns `Tree` as a dict: {"exists": True, "files": 20000, "bytes": 1073741824, ...}."""

    @staticmethod
    @override
    def default() -> dict[str, Any]:
        return Tree(exists=False).model_dump(mode="json")

    @override
    def command(self, path: str, excludes: Sequence[str] = ()) -> str:
        return self.asking(_tree(path, excludes))

    @override
    def process(self, output: list[str]) -> dict[str, Any]:
        return self.told(output, parse_tree)

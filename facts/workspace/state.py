"""Workspace: directories with owner and mode, and the files of the workspace as rsync counts them.

The files are listed by rsync itself, so that its patterns have the same meaning as in a copy; the
list of 20,000 files is sent compressed. Pipes, sockets and devices, which rsync would not copy, do
not count as files, but are listed: `--delete` removes them. Of a directory only the mode counts:
its time changes with every file in it.
"""

import base64
import binascii
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import Field
from typing_extensions import override

from gpu_node.facts.probe import bounds
from gpu_node.facts.probe.base import AreaFact, Parsers, SectionFact, State, taken
from gpu_node.facts.probe.file_systems import SHARED, USE, Place, parse_places
from gpu_node.facts.probe.lines import lines_of
from gpu_node.facts.probe.owner import SHARED as OWNER
from gpu_node.facts.probe.protocol import Readings, Section, Unreadable
from gpu_node.facts.probe.readers import Columns, number, pairs
from gpu_node.facts.probe.request import ProbeRequest
from gpu_node.facts.probe.shell import assigned, shell
from gpu_node.facts.workspace import below as below_it
from gpu_node.facts.workspace import mounts
from gpu_node.facts.workspace import pointers as lfs
from gpu_node.facts.workspace.packed import broken, entry_of, pack, require_short, unpacked

# The partial file of an interrupted transfer, in the folder of the file.
PARTIAL = ".gpu-node-partial"
# The bytes are those of a compressed list of 400,000 files.
TREE_SECONDS, _TREE_BYTES = 120, 12 * 1024 * 1024
# rsync's exit codes if files disappeared meanwhile, as those of a running job do.
_ENDED_WELL = ("0", "24")

_RSYNC = "rsync --version 2>/dev/null | head -n 1"
_DIRECTORIES = shell("workspace/directories")
_FILES = mounts.ASK + shell("workspace/files", seconds=TREE_SECONDS)
_ROOM = shell("workspace/room")
ROOM_SECTION = "workspace.room"
_PLACES = USE + shell("workspace/places")
PLACES_SECTION = "workspace.places"
RSYNC = Section("workspace.rsync", _RSYNC, light=True)


def listing(excludes: Sequence[str]) -> list[str]:
    """Return the command that lists a folder without what is excluded; it ends with the folder."""
    return ["rsync", "-rl", "--list-only", "--no-h", *excluding(excludes)]


def excluding(excludes: Sequence[str]) -> list[str]:
    """Return rsync's options that skip what is excluded, and what an interrupted copy has left."""
    return [f"--exclude={pattern}" for pattern in (PARTIAL, *excludes)]


def sections(request: ProbeRequest) -> tuple[Section, ...]:
    """Return the sections about the directories and the workspace that an inventory names."""
    asked = [RSYNC]
    if request.directories:
        asked.append(_directories(request.directories))
    if request.below:
        asked.append(below_it.section(request.below))
    if request.copies:
        trees = {path: copy.excludes for copy in reversed(request.copies) for path in copy.paths}
        paths = list(dict.fromkeys(path for copy in request.copies for path in copy.paths))
        asked += [_tree(each, trees[each], request.user) for each in paths]
        places = f"set -- {shlex.join(paths)}\n{_PLACES}"
        asked.append(Section(PLACES_SECTION, places, shared=(SHARED,), light=True))
        asked.append(lfs.section(paths, request.user))
        room = f"set -- {shlex.join(paths)}\n{_ROOM}"
        asked.append(Section(ROOM_SECTION, room, seconds=5 + 6 * len(paths)))
    return tuple(asked)


def _directories(paths: Sequence[str]) -> Section:
    return Section("workspace.directories", f"set -- {shlex.join(paths)}\n{_DIRECTORIES}")


def _tree(path: str, excludes: Sequence[str], user: str = "") -> Section:
    given = f"set -- {shlex.join(listing(excludes))}\n{assigned(path=path, user=user)}"
    return Section(section_of(path), given + _FILES, TREE_SECONDS, (OWNER,), bytes=_TREE_BYTES)


def section_of(path: str) -> str:
    """Return the name of the section about the workspace at a path."""
    return f"workspace.files:{path}"


class Directory(State):
    """A directory, or what is in its place; `problem` is why it could not be examined.

    `home` is the account whose home it is, `within` one whose home is below it.
    """

    exists: bool
    is_directory: bool = False
    mode: str = ""
    owner: str = ""
    group: str = ""
    home: str = ""
    within: str = ""
    problem: str = ""


class Tree(State):
    """The files below a folder: their number and bytes, and the list of them, compressed.

    `digest` is of the list, empty if there is no rsync to make a list. `unmounted` is the folder's
    mount point (the folder itself, or one above) in /etc/fstab, if nothing is mounted there.
    `is_mount`: the folder is a mount point.
    """

    longest = 1 << 27
    exists: bool
    files: int = 0
    bytes: int = 0
    digest: str = ""
    packed: str = ""
    unmounted: str = ""
    is_mount: bool = False

    @property
    def entries(self) -> dict[str, str]:
        """Every path with what rsync compares: kind, mode, size and time, or target.

        For `SPECIAL` files it is only the kind.
        """
        lines = unpacked(base64.b64decode(self.packed)) if self.packed else ()
        pairs = (line.rpartition("\t") for line in lines)
        return {path: rest for path, _, rest in pairs}


class WorkspaceState(State):
    """The node's rsync ("" for none), directories, and trees by their path.

    `source` is the controller's tree, if that is the source, and `source_rsync` its rsync;
    `sources` are the controller's trees by their path.
    """

    rsync: str | None
    directories: dict[str, Directory] | None
    trees: dict[str, Tree | None]
    # The file systems of the workspace.
    places: dict[str, Place] | None = None
    # The free bytes of the file system of each tree; without those that gave no answer.
    room: dict[str, int] | None = None
    source: Tree | None = None
    source_rsync: str | None = None
    sources: dict[str, Tree] = Field(default_factory=dict)
    # What is below the directories that are wanted with all their content.
    below: dict[str, below_it.Below] | None = None
    # The pointers of git-lfs in each folder of the workspace that exists.
    pointers: dict[str, lfs.Pointers] | None = None


def parse_rsync(text: str) -> str:
    """Parse the first line of `rsync --version`."""
    match = re.match(r"rsync +version v?(\d{1,4}(?:\.\w{1,12}){0,4})\b", text, re.ASCII)
    if match is None and text.strip():
        raise Unreadable(f"{text.strip()!r} is not a version of rsync")
    return match[1] if match else ""


def parse_directories(text: str) -> dict[str, Directory]:
    """Parse lines of a path and `mode|owner|group|home|within|kind`, or the error of stat(1)."""
    return {path: _directory(status) for path, status in pairs(text, "\t").items()}


_STATUS = Columns(
    Directory, "mode owner group home within is_directory...", "|", is_directory="directory".__eq__
)


def _directory(status: str) -> Directory:
    if status.startswith("? "):
        absent = "No such file" in status or "Not a directory" in status
        return Directory(exists=False, problem="" if absent else status.removeprefix("? "))
    return _STATUS.row(status, exists=True)


def parse_room(text: str) -> dict[str, int]:
    """Parse lines of a path and the free bytes of its file system."""
    return {path: number(free) for path, free in pairs(text, "\t").items()}


def parse_tree(text: str) -> Tree:
    """Parse what `mounts` prints, then `absent`, `unlisted`, or the coded list of the files."""
    mount, rest = mounts.parse(text)
    kind, _, coded = rest.partition("\n")
    if kind in ("absent", "unlisted"):
        return _mounted(Tree(exists=kind == "unlisted"), mount)
    try:
        packed = base64.b64decode(coded) if kind == "base64" else bytes.fromhex(coded)
    except (ValueError, binascii.Error) as error:
        raise broken(error) from error
    return _mounted(_listed(unpacked(packed, "ascii")), mount)


def _mounted(tree: Tree, mount: Mapping[str, Any]) -> Tree:
    bounds.require(mount)
    return tree.model_copy(update=mount)


def tree(listed: str) -> Tree:
    """Return the tree from the output of `listing` and a line `end CODE`."""
    return _listed(lines_of(listed))


def _listed(lines: Iterable[str]) -> Tree:
    """Return the tree from the lines of a list; each line is read once."""
    last, complaint, files, total = "", "", 0, 0
    entries: list[str] = []
    for last in lines:
        if (entry := entry_of(last)) is None:
            complaint = complaint or (last if last.startswith(("rsync:", "rsync error")) else "")
            continue
        path, rest, size = entry
        entries.append(f"{path}\t{rest}")
        files, total = files + (size is not None), total + (size or 0)
        require_short(len(entries))
    code = last.removeprefix("end ")
    if code not in _ENDED_WELL:
        raise Unreadable(f"rsync ended with {bounds.short(code)}: {complaint or 'it was cut off'}")
    digest, packed = pack(sorted(entries))
    return Tree(exists=True, files=files, bytes=total, digest=digest, packed=packed)


PARSERS: Parsers = {
    RSYNC.name: ("rsync", parse_rsync),
    "workspace.directories": ("directories", parse_directories),
    PLACES_SECTION: ("places", parse_places),
    below_it.SECTION: ("below", below_it.parse),
    lfs.SECTION: ("pointers", lfs.parse),
    ROOM_SECTION: ("room", parse_room),
}


def parse(readings: Readings) -> WorkspaceState:
    """Return the area's state from the probe's answers."""
    prefix = section_of("")
    paths = [name.removeprefix(prefix) for name in readings.sections if name.startswith(prefix)]
    trees = {path: readings.take(section_of(path), parse_tree) for path in paths}
    fields = {"directories": {}, **taken(readings, PARSERS), "trees": trees}
    return WorkspaceState.model_validate(fields)


class Workspace(AreaFact):
    """Returns `WorkspaceState` as a dict: {"rsync": "3.1.2", "directories": {...}, "trees": {}}."""

    sections_for = staticmethod(sections)
    state = WorkspaceState
    parse = staticmethod(parse)


class FolderFact(SectionFact):
    """Returns `Directory` as a dict: {"exists": True, "mode": "775", "owner": "train", ...}."""

    unread = Directory(exists=False, problem="no answer")
    parser = staticmethod(lambda text: next(iter(parse_directories(text).values())))

    @override
    def command(self, path: str) -> str:
        return self.script_for(_directories([path]))


class BelowFact(SectionFact):
    """Returns `Below` as a dict: {"entries": 200, "folders": 3, "files": 0, ...}."""

    unread = below_it.Below(entries=0, partial="no answer")
    parser = staticmethod(lambda text: next(iter(below_it.parse(text).values())))

    @override
    def command(self, path: str, mode: str) -> str:
        return self.script_for(below_it.section([(path, mode)]))


class FilesFact(SectionFact):
    """Returns `Tree` as a dict: {"exists": True, "files": 20000, "bytes": 1073741824, ...}."""

    unread = Tree(exists=False)
    parser = staticmethod(parse_tree)

    @override
    def command(self, path: str, excludes: Sequence[str] = ()) -> str:
        return self.script_for(_tree(path, excludes))

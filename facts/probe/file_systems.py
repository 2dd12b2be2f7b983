"""File systems: the mount that holds a file, and whether nodes share the file.

Cloned disks have equal devices and inodes, and clients of one NFS server different devices. So two
nodes share a file if both have it on a network file system, with the same mount source, inode and
ctime.
"""

import re
from collections.abc import Mapping

from gpu_node.facts.probe.base import State
from gpu_node.facts.probe.protocol import Unreadable
from gpu_node.facts.probe.shell import shell

# Kinds that other machines may have too, with their names in mountinfo. What is behind FUSE is
# unknown.
NETWORK = frozenset(
    {"9p", "acfs", "afs", "beegfs", "ceph", "cifs", "fuse", "gfs2", "gpfs", "lustre", "ncpfs"}
    | {"nfs", "nfs4", "ocfs2", "orangefs", "panfs", "pvfs2", "smb3", "smbfs", "vboxsf", "virtiofs"}
    | {"vmhgfs", "wekafs"}
)
_KIND = re.compile(r"[\w.-]{1,64}")
_CHANGED = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{9} \+0000|")
_INODE = re.compile(r"\d{1,20}")

PLACES = shell("probe/places")
# For Section.shared, and as the beginning of a command that uses the functions.
SHARED = ("gn_places", PLACES)
USE = 'eval "$gn_places"\n'


class Place(State):
    """The place of a file: the kind and the source of the mount (nas:/home), and its inode.

    `changed` is its ctime, UTC in nanoseconds; empty if the node does not report it.
    """

    kind: str
    source: str
    inode: int
    changed: str

    @property
    def is_network(self) -> bool:
        """Whether other machines may have the same file."""
        return self.kind in NETWORK or self.kind.startswith("fuse.")


Places = Mapping[str, Place]


def parse_places(text: str) -> dict[str, Place]:
    """Parse `FILE<tab>kind<tab>source<tab>inode<tab>ctime`, a line for each file."""
    return dict(map(_place, filter(None, text.split("\n"))))


def _place(line: str) -> tuple[str, Place]:
    path, kind, source, inode, changed = line.split("\t")
    checks = zip((_KIND, _INODE, _CHANGED), (kind, inode, changed), strict=True)
    if not all(pattern.fullmatch(each) for pattern, each in checks) or not source.isprintable():
        raise Unreadable(f"not the location of a file: {line[:80]!r}")
    return path, Place(kind=kind, source=source, inode=int(inode), changed=changed)


def only(places: Places | None, path: str) -> Places | None:
    """Return the place of a path, or of the nearest folder above it; None if unknown."""
    above = [place for place in places or () if f"{path}/".startswith(f"{place.rstrip('/')}/")]
    nearest = max(above, key=len, default=None)
    return {nearest: places[nearest]} if places and nearest is not None else None


def is_network(places: Places | None, path: str) -> bool:
    """Whether a file is on a file system that other machines may have too; False if unknown."""
    place = (places or {}).get(path)
    return place is not None and place.is_network


def are_shared(mine: Places | None, theirs: Places | None) -> bool | None:
    """Whether two nodes see the same files under the same paths; None if unknown.

    One equal file is enough: the ctime of the others may have changed between the two probes. A
    file on a node's own disks is not shared, whatever another node reports.
    """
    if any(
        known and not any(each.is_network for each in known.values()) for known in (mine, theirs)
    ):
        return False
    if mine is None or theirs is None:
        return None
    pairs = [(place, theirs[path]) for path, place in mine.items() if path in theirs]
    pairs = [(a, b) for a, b in pairs if a.is_network and b.is_network]
    if any(a == b and a.changed for a, b in pairs):
        return True
    if any(a.inode == b.inode or (a.kind, a.source) == (b.kind, b.source) for a, b in pairs):
        return None
    return False

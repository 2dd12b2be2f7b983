"""File systems: the mount that a file lies in, and whether nodes see one and the same file there.

Cloned disks have equal devices and inodes, and clients of one NFS server different devices. So two
nodes share a file where both have it from a network file system, by the same mount source, with the
same inode and ctime.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from facts.area import State
from facts.probe import Unreadable

# The kinds that a server, or other machines, may have too, as /proc/self/mountinfo names them. Of
# FUSE nobody knows what is behind it.
_NETWORK = frozenset(
    {"9p", "acfs", "afs", "beegfs", "ceph", "cifs", "fuse", "gfs2", "gpfs", "lustre", "ncpfs"}
    | {"nfs", "nfs4", "ocfs2", "orangefs", "panfs", "pvfs2", "smb3", "smbfs", "vboxsf", "virtiofs"}
    | {"vmhgfs", "wekafs"}
)
_KIND = re.compile(r"[\w.-]{1,64}")
_CHANGED = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{9} \+0000|")
_INODE = re.compile(r"\d{1,20}")

# Functions of POSIX sh. They print `FILE<tab>kind<tab>source<tab>inode<tab>ctime` of each file that
# is there, a link's target. Only a stat that knows nanoseconds tells the ctime.
PLACES = r"""
places() {
  for file; do
    real=$(readlink -f "$file" 2>/dev/null) || continue
    told=$(TZ=UTC0 stat -L -c '%i %z' "$real" 2>/dev/null) ||
      told=$(ls -diL "$real" 2>/dev/null | awk '{ print $1 " " }')
    [ -z "$told" ] || printf '%s\t%s\t%s\t%s\n' "$file" "$real" "${told%% *}" "${told#* }"
  done | awk '
    function plain(text) {
      gsub(/\\040/, " ", text); gsub(/\\011/, "\t", text); gsub(/\\134/, "\\", text)
      return text
    }
    FILENAME != "-" {
      last = ++count; point[last] = plain($5)
      for (i = 6; i < NF && $i != "-"; i++) continue
      kind[last] = $(i + 1); source[last] = $(i + 2)
      next
    }
    {
      split($0, field, "\t"); best = 0; longest = -1
      for (i = 1; i <= count; i++) {
        above = point[i] == "/" ? "/" : point[i] "/"
        # Of two mounts at one place the later one is seen.
        if ((field[2] == point[i] || index(field[2], above) == 1) && length(point[i]) >= longest) {
          best = i; longest = length(point[i])
        }
      }
      if (best) print field[1] "\t" kind[best] "\t" source[best] "\t" field[3] "\t" field[4]
    }' /proc/self/mountinfo -
}
# Of a file that is not there, the same of the nearest folder above it: it would be made there.
above() {
  case $1 in /*/*) up=${1%/*} ;; *) up=/ ;; esac
  if [ -e "$up" ]; then places "$up"; else above "$up"; fi
}
"""
# What a section shares with others, and begins with, to have that function.
SHARED = ("gn_places", PLACES)
USE = 'eval "$gn_places"\n'


class Place(State):
    """Where a file lies: the kind and the source of the mount (nas:/home), and its inode there.

    `changed` is its ctime, UTC to the nanosecond; empty where the node cannot tell it.
    """

    kind: str
    source: str
    inode: int
    changed: str

    @property
    def is_network(self) -> bool:
        """Whether other machines may have the file from the same place."""
        return self.kind in _NETWORK or self.kind.startswith("fuse.")


Places = Mapping[str, Place]


def parse_places(text: str) -> dict[str, Place]:
    """Parse `FILE<tab>kind<tab>source<tab>inode<tab>ctime`, a line for each file."""
    return dict(map(_place, filter(None, text.split("\n"))))


def _place(line: str) -> tuple[str, Place]:
    path, kind, source, inode, changed = line.split("\t")
    told = zip((_KIND, _INODE, _CHANGED), (kind, inode, changed), strict=True)
    if not all(pattern.fullmatch(each) for pattern, each in told) or not source.isprintable():
        raise Unreadable(f"not a place of a file: {line[:80]!r}")
    return path, Place(kind=kind, source=source, inode=int(inode), changed=changed)


def is_network(places: Places | None, path: str) -> bool:
    """Whether a file lies where other machines may have it too; of one that is not told: no."""
    place = (places or {}).get(path)
    return place is not None and place.is_network


def are_shared(mine: Places | None, theirs: Places | None) -> bool | None:
    """Whether two nodes see the same files under the same paths; None where that is not known.

    One equal file tells it: of the others the ctime may have changed between two looks.
    """
    if mine is None or theirs is None:
        return None
    pairs = [(place, theirs[path]) for path, place in mine.items() if path in theirs]
    pairs = [(a, b) for a, b in pairs if a.is_network and b.is_network]
    if any(a == b and a.changed for a, b in pairs):
        return True
    if any(a.inode == b.inode or (a.kind, a.source) == (b.kind, b.source) for a, b in pairs):
        return None
    return False

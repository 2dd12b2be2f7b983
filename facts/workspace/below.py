"""What is below a directory that is wanted with all its content: entries without their bits."""

import shlex
from collections.abc import Sequence

from gpu_node.facts.probe.base import State
from gpu_node.facts.probe.protocol import Section
from gpu_node.facts.probe.readers import Columns, pairs
from gpu_node.facts.probe.shell import shell

# The limits of a walk. find reads about 100,000 entries a second from a warm local disk.
MOST_ENTRIES, WALK_SECONDS = 200_000, 20
SECTION = "workspace.below"
_LOOK = shell("workspace/below", seconds=WALK_SECONDS, most=MOST_ENTRIES)
_ENDS = {
    "0": "",
    "1": "some entries could not be read",
    "137": f"the walk took more than {WALK_SECONDS} s",
    "most": f"the walk ended after {MOST_ENTRIES} entries",
    "gone": "",
}


class Below(State):
    """The entries below a folder: how many, and how many folders and files lack a bit.

    `example` is one of them, relative to the folder. `partial` is why not all entries were read.
    """

    entries: int
    folders: int = 0
    files: int = 0
    example: str = ""
    partial: str = ""


def section(trees: Sequence[tuple[str, str]]) -> Section:
    """Return the section about some folders, each with the mode that is wanted of it."""
    words = [word for path, mode in trees for word in (path, mode, file_bits(mode))]
    return Section(
        SECTION,
        f"set -- {shlex.join(words)}\n{_LOOK}",
        seconds=5 + (WALK_SECONDS + 1) * len(trees),
        root=True,
    )


def file_bits(mode: str) -> str:
    """Return the bits of a folder's mode that its files get: to read and write, never to run."""
    return f"{int(mode, 8) & 0o666:03o}"


_COLUMNS = Columns(
    Below,
    "folders files entries partial example",
    partial=lambda end: _ENDS[end] if end in _ENDS else f"find ended with {int(end)}",
    example=lambda name: name.removeprefix("./"),
)


def parse(text: str) -> dict[str, Below]:
    """Parse the lines that `below` of below.sh prints: the folder and columns."""
    return {path: _COLUMNS.row(row) for path, row in pairs(text, "\t").items()}

"""Our lines in files that are a user's: a block between two lines, each with its node's name."""

from __future__ import annotations

import re
from collections.abc import Iterable

from facts.area import State

BEGIN = "# >>> gpu-node: the nodes of this cluster, written anew by every deploy that needs to >>>"
END = "# <<< gpu-node <<<"
CUT = "!cut"
# What a line of ours ends with: the name of the node that it is about.
OURS = re.compile(r"(?:^|\s)gpu-node:(\S+)$")
# sh that prints the lines of the block in a file, and CUT where the block has no end.
PRINT = f"""\
awk -v begin='{BEGIN}' -v end='{END}' -v cut='{CUT}' '
$0 == begin {{ inside = 1; next }}
$0 == end {{ inside = 0; next }}
inside {{ print }}
END {{ if (inside) print cut }}'"""


class Own(State):
    """A line of ours: the node that it is about, and its text."""

    node: str
    text: str


class Block(State):
    """Our lines in a file; `is_whole` is false where the line that ends the block is missing."""

    lines: tuple[Own, ...] = ()
    is_whole: bool = True

    def of(self, node: str) -> tuple[str, ...]:
        """The lines about a node."""
        return tuple(each.text for each in self.lines if each.node == node)


def parse_block(lines: Iterable[str]) -> Block:
    """Parse what PRINT says; a line of somebody else's is no part of the block."""
    told = list(lines)
    ours = [Own(node=found[1], text=line) for line in told if (found := OURS.search(line))]
    return Block(lines=tuple(ours), is_whole=CUT not in told)

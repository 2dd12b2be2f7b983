"""Managed blocks of lines in a user's file: how they are marked, found, replaced and removed."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from gpu_node.facts.probe.base import State
from gpu_node.facts.probe.lines import lines_of
from gpu_node.facts.probe.shell import shell


@dataclass(frozen=True)
class Found:
    """A block in a file's text: its place, all of it, and the lines between its markers."""

    start: int
    end: int
    text: str
    body: str


def outside(text: str, blocks: Sequence[Found]) -> Iterator[str]:
    """Yield the parts of a text before, between and after blocks."""
    place = 0
    for block in blocks:
        yield text[place : block.start]
        place = block.end
    yield text[place:]


@dataclass(frozen=True)
class Markers:
    """The first and the last line of a kind of block; every byte outside the block stays.

    `line` is a regular expression for the beginning of each line between them: a block with another
    line is not ours. With `has_remark` the marker lines only begin with these texts.
    """

    begin: str
    end: str
    line: str = ""
    has_remark: bool = False

    def find(self, text: str) -> list[Found]:
        """Return the blocks in a file's text.

        Each line is looked at once: a user may fill a file with marker lines.
        """
        blocks: list[Found] = []
        is_ours = re.compile(self.line).match
        place, start, body = 0, -1, -1
        for line in text.split("\n"):
            after = min(place + len(line) + 1, len(text))
            is_begin = self._is(self.begin, line)
            # A comment may be a line of a block, but the first line of another block may not.
            if is_begin and (start < 0 or self.has_remark):
                start, body = place, after
            elif start >= 0 and self._is(self.end, line):
                blocks.append(Found(start, after, text[start:after], text[body:place]))
                start = -1
            elif start >= 0 and not is_ours(line):
                start = -1
            place = after
        return blocks

    def _is(self, marker: str, line: str) -> bool:
        return line.startswith(marker) if self.has_remark else line == marker

    def block(self, body: str, remark: str = "") -> str:
        """Return a block with `body`, whole lines; empty if `body` is empty."""
        return f"{self.begin}{remark}\n{body}{self.end}\n" if body else ""

    def replace(self, text: str, block: str) -> str:
        """Return `text` with `block` in place of the first block, and without the others.

        If `text` has no block, it is put at the top: no line above it takes effect first, and no
        missing newline must be added.
        """
        blocks = self.find(text)
        if not blocks:
            return block + text
        first, *others = outside(text, blocks)
        return "".join((first, block, *others))

    def remove(self, text: str) -> str:
        """Return `text` without its blocks."""
        return "".join(outside(text, self.find(text)))

    def is_unclosed(self, text: str) -> bool:
        """Whether a block begins and does not end: then it is unknown which lines are ours."""
        return self.begin in lines_of(self.remove(text))


# Lines about the nodes of the cluster, in files of SSH and in /etc/hosts.
NODES = Markers(
    "# >>> gpu-node: the nodes of this cluster, written anew by every deploy that needs to >>>",
    "# <<< gpu-node <<<",
)
BEGIN, END = NODES.begin, NODES.end
CUT = "!cut"
# The end of our lines: the name of the node that the line is about.
OURS = re.compile(r"(?:^|\s)gpu-node:(\S+)$")
MANAGED_BLOCK = shell("probe/managed_block", begin=BEGIN, end=END, cut=CUT)


class Own(State):
    """One of our lines: the node that it is about, and its text."""

    node: str
    text: str


class Block(State):
    """Our lines in a file; `is_whole` is false if the line that ends the block is missing."""

    lines: tuple[Own, ...] = ()
    is_whole: bool = True

    def of(self, node: str) -> tuple[str, ...]:
        """The lines about a node."""
        return self.by_node.get(node, ())

    @cached_property
    def by_node(self) -> dict[str, tuple[str, ...]]:
        """The lines by the node that they are about."""
        lines: dict[str, list[str]] = {}
        for line in self.lines:
            lines.setdefault(line.node, []).append(line.text)
        return {node: tuple(texts) for node, texts in lines.items()}


def parse_block(lines: Iterable[str]) -> Block:
    """Parse the output of MANAGED_BLOCK; a line of another program is not part of the block."""
    printed = list(lines)
    ours = [Own(node=mark[1], text=line) for line in printed if (mark := OURS.search(line))]
    return Block(lines=tuple(ours), is_whole=CUT not in printed)

"""Managed blocks of lines in a user's file: how they are marked, found, replaced and removed."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from gpu_node.facts.probe.base import State
from gpu_node.facts.probe.shell import shell


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

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        rest = ".*" if self.has_remark else ""
        begin, end = (f"{re.escape(each)}{rest}$" for each in (self.begin, self.end))
        # A comment may be a line of a block, but the first line of another block may not.
        markers = f"{begin}|{end}" if self.has_remark else end
        inside = rf"(?!{markers})(?:{self.line}).*\n"
        return re.compile(rf"(?m)^{begin}\n(?P<body>(?:{inside})*){end}(?:\n|\Z)")

    def find(self, text: str) -> list[re.Match[str]]:
        """Return the blocks in a file's text; the group `body` is the lines between the markers."""
        return list(self._pattern.finditer(text))

    def block(self, body: str, remark: str = "") -> str:
        """Return a block with `body`, whole lines; empty if `body` is empty."""
        return f"{self.begin}{remark}\n{body}{self.end}\n" if body else ""

    def replace(self, text: str, block: str) -> str:
        """Return `text` with `block` in place of the first block, and without the others.

        If `text` has no block, it is put at the top: no line above it takes effect first, and no
        missing newline must be added.
        """
        found = self._pattern.search(text)
        if found is None:
            return block + text
        return text[: found.start()] + block + self.remove(text[found.end() :])

    def remove(self, text: str) -> str:
        """Return `text` without its blocks."""
        return self._pattern.sub("", text)

    def is_unclosed(self, text: str) -> bool:
        """Whether a block begins and does not end: then it is unknown which lines are ours."""
        return self.begin in self.remove(text).splitlines()


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
        found: dict[str, list[str]] = {}
        for each in self.lines:
            found.setdefault(each.node, []).append(each.text)
        return {node: tuple(texts) for node, texts in found.items()}


def parse_block(lines: Iterable[str]) -> Block:
    """Parse the output of MANAGED_BLOCK; a line of another program is not part of the block."""
    printed = list(lines)
    ours = [Own(node=mark[1], text=line) for line in printed if (mark := OURS.search(line))]
    return Block(lines=tuple(ours), is_whole=CUT not in printed)

"""Lines about nodes in a managed block, and lines of other programs that they replace."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from gpu_node.facts.probe.lines import lines_of
from gpu_node.facts.probe.managed_block import NODES, OURS

# Disables a line of another program that our lines replace.
DISABLED = "#gpu-node# "


def with_lines(text: str, lines: Mapping[str, Iterable[str]], nodes: Iterable[str]) -> str:
    """Return `text` with `lines` in our block, in the order of `nodes`.

    A node that is not in `lines` keeps its lines; one that is no longer in `nodes` loses them.
    Other lines in the block stay, below it.
    """
    inside = lines_of("".join(each.body for each in NODES.find(text)))
    had: dict[str, list[str]] = {}
    foreign: list[str] = []
    for line in inside:
        ours = OURS.search(line)
        (had.setdefault(ours[1], []) if ours else foreign).append(line)
    kept = [line for node in nodes for line in lines.get(node, had.get(node, ()))]
    block = NODES.block("".join(f"{line}\n" for line in kept))
    return NODES.replace(text, block + "".join(f"{line}\n" for line in foreign))


def disable(text: str, is_meant: Callable[[str], bool]) -> str:
    """Return `text` with our comment mark before each selected line."""
    lines = text.split("\n")
    return "\n".join(f"{DISABLED}{line}" if line and is_meant(line) else line for line in lines)


def enable(text: str) -> str:
    """Return `text` with the lines that we disabled enabled again."""
    return re.sub(rf"^{re.escape(DISABLED)}", "", text, flags=re.MULTILINE)

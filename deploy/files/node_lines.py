"""Our block in a user's file: written anew between its two lines, all other bytes as they were."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from facts.block import BEGIN, END, OURS

# What stands before a line of somebody else's that our lines are in place of.
OUT = "#gpu-node# "
_BLOCK = re.compile(
    rf"^{re.escape(BEGIN)}\n(?P<body>(?:.*\n)*?){re.escape(END)}(?:\n|\Z)", re.MULTILINE
)


def with_lines(text: str, lines: Mapping[str, Iterable[str]], nodes: Iterable[str]) -> str:
    """Return `text` with `lines` in our block, in the order of `nodes`.

    A node that `lines` does not tell of keeps those that it has, one that is no longer in `nodes`
    loses them. What somebody else wrote into the block stays, below it. A new block stands at the
    top: there no line before it decides, and no missing newline has to be added.
    """
    found = list(_BLOCK.finditer(text))
    inside = "".join(each["body"] for each in found).splitlines()
    had: dict[str, list[str]] = {}
    foreign: list[str] = []
    for line in inside:
        ours = OURS.search(line)
        (had.setdefault(ours[1], []) if ours else foreign).append(line)
    kept = [line for node in nodes for line in lines.get(node, had.get(node, ()))]
    block = "".join(f"{line}\n" for line in ([BEGIN, *kept, END] if kept else []))
    block += "".join(f"{line}\n" for line in foreign)
    if not found:
        return block + text
    start, stop = found[0].span()
    return text[:start] + block + _BLOCK.sub("", text[stop:])


def with_body(text: str, body: str) -> str:
    """Return `text` with `body`, whole lines, as our block; without the block where it is empty."""
    block = f"{BEGIN}\n{body}{END}\n" if body else ""
    found = _BLOCK.search(text)
    if found is None:
        return block + text
    return text[: found.start()] + block + text[found.end() :]


def put_out(text: str, is_meant: Callable[[str], bool]) -> str:
    """Return `text` with our mark, a comment's, before each line that is meant."""
    lines = text.split("\n")
    return "\n".join(f"{OUT}{line}" if line and is_meant(line) else line for line in lines)


def put_back(text: str) -> str:
    """Return `text` with each line that we put out as it was."""
    return re.sub(rf"^{re.escape(OUT)}", "", text, flags=re.MULTILINE)


def is_cut(text: str) -> bool:
    """Whether a block begins and does not end: nobody can tell what in it is ours."""
    return BEGIN in _BLOCK.sub("", text).splitlines()

"""What fits a width: lines end where words end, long lists of nodes at their commas."""

import re
from collections.abc import Iterator

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

# What says that a part is left out: of a report that has it, and of a list of names.
CUT, CUT_NAMES = " ... (--full)", " ..."
_WORD = re.compile(r"\S+")
# A line ends behind a comma of a list, or behind its bracket where no number has room beside it.
_PIECE = re.compile(r"[^,\[]*[,\[]|[^,\[]+")


def fitted(words: Text, room: int, most: int = 0, end: str = CUT) -> list[Text]:
    """Return words as lines of a width; what exceeds `most` lines is left out, as `end` says.

    With 0 nothing is left out.
    """
    if not words.plain:
        return []
    console = Console(width=room, markup=False, emoji=False)
    lines = list(_at_commas(words, room).wrap(console, room, overflow="fold"))
    for line in lines:
        line.rstrip()
    if most and len(lines) > most:
        end = end if len(end) < room // 2 else CUT_NAMES
        last = lines[most - 1]
        cut(last, room - len(end))
        last.append(end)
        return lines[:most]
    return lines


def _at_commas(words: Text, room: int) -> Text:
    """Return words in which each that is longer than a line has line ends behind its commas."""
    ends = [
        word.start() + end
        for word in _WORD.finditer(words.plain)
        if cell_len(word[0]) > room
        for end in _ends(word[0], room)
    ]
    return Text("\n").join(words.divide(ends)) if ends else words


def _ends(word: str, room: int) -> Iterator[int]:
    """Yield where each line of a word ends, but the last: with as many pieces as have room."""
    width = 0
    for piece in _PIECE.finditer(word):
        size = cell_len(piece[0])
        if width and width + size > room:
            yield piece.start()
            width = 0
        width += size


def cut(line: Text, room: int) -> None:
    """Cut a line to a width, at a blank; in a long word a number is left out rather than cut."""
    before = line.plain
    line.truncate(room)
    kept = line.plain
    follows = before[len(kept) : len(kept) + 1]
    blank = kept.rfind(" ")
    if follows.strip() and blank > room // 2:
        line.right_crop(len(kept) - blank)
    elif kept[-1:].isdecimal() and follows.isdecimal():
        line.right_crop(len(kept) - len(kept.rstrip("0123456789")))
    line.rstrip()

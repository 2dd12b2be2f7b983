"""Parts of a table: lines, entries with labelled lines, which are folded, and whole commands."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from gpu_node.drift.report.width import fitted
from gpu_node.inventories.escape import visible

if TYPE_CHECKING:
    from gpu_node.drift.report.view import Line

_GAP = 2


def lines(several: Iterable[Line]) -> list[Text]:
    """Return lines with their styles."""
    return [Text(each.words, style=each.style) for each in several]


def listed(several: Iterable[Line], width: int) -> list[RenderableType]:
    """Return lines of a list, each behind its depth, and broken at the commas of its names."""
    return [
        Padding(
            Text("\n").join(fitted(Text(each.words), width - each.depth * _GAP)),
            (0, 0, 0, each.depth * _GAP),
        )
        for each in several
    ]


def entry(head: Text, lines: Iterable[tuple[str, str]]) -> RenderableType:
    """Return a head with its lines, each a label and a text, and an empty one after them."""
    body = Table(box=None, show_header=False, pad_edge=False, padding=(0, _GAP, 0, 0))
    body.add_column(style="dim", no_wrap=True)
    body.add_column(overflow="fold")
    for label, text in lines:
        body.add_row(label, Text(visible(text)))
    return Group(head, Padding(body, (0, 0, 1, _GAP)))


def whole(line: str) -> Text:
    """Return a line with a command: it is not folded, and can be copied from a narrow console."""
    return Text(visible(line), style="dim", no_wrap=True, overflow="ignore")

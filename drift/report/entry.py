"""Parts below a table: entries with labelled lines that are folded, and commands, which are not."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from gpu_node.inventories.escape import visible


def entry(head: Text, lines: Iterable[tuple[str, str]]) -> RenderableType:
    """Return a head with its lines, each a label and a text, and an empty one after them."""
    body = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    body.add_column(style="dim", no_wrap=True)
    body.add_column(overflow="fold")
    for label, text in lines:
        body.add_row(label, Text(visible(text)))
    return Group(head, Padding(body, (0, 0, 1, 2)))


def whole(line: str) -> Text:
    """Return a line with a command: it is not folded, and can be copied from a narrow console."""
    return Text(visible(line), style="dim", no_wrap=True, overflow="ignore")

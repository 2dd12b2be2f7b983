"""The table's matrix: nodes as columns, in as many blocks as the console's width asks for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from drift.compare import FACTS, UNREADABLE, Fact
from drift.report.model import HostReport, Status
from drift.report.visible import visible
from facts.node import NodeState

STATUS_STYLES: Mapping[Status, str] = {
    "ok": "green",
    "drift": "red",
    "unreachable": "bold red",
    "unreadable": "bold red",
}
# A second sign beside the colour, for terminals without one and eyes that do not tell them apart.
WRONG = "✗"

_LABELS = ("status", *(fact.name for fact in FACTS))
_GAP = 2
# So few nodes are worth comparing side by side even where longer values than _ROOM fold for it.
_FEW = 3
_ROOM = 20
# A longer value folds in any case: it would take the room of two nodes.
_LONG = 32


@dataclass(frozen=True)
class _Column:
    """A node's name and its cells, one for each of the labels."""

    name: Text
    cells: tuple[Text, ...]

    def takes(self, most: int) -> int:
        """How much of a line it takes when what is wider than `most` folds."""
        return _GAP + min(most, max(text.cell_len for text in (self.name, *self.cells)))


def matrix(hosts: Mapping[str, HostReport], width: int) -> RenderableType:
    """Return every fact of every node, no wider than `width`; a blank line parts the blocks."""
    columns = [_column(name, host) for name, host in hosts.items()]
    room = width - max(map(cell_len, _LABELS))
    if room < _GAP + _ROOM:
        return _apart(_list(column) for column in columns)
    return _apart(_block(block) for block in _blocks(columns, room))


def _apart(parts: Iterator[RenderableType]) -> RenderableType:
    lines = [each for part in parts for each in (part, Text())]
    return Group(*lines[:-1])


def _blocks(columns: list[_Column], room: int) -> Iterator[list[_Column]]:
    """Yield the columns that stand side by side in `room`."""
    if len(columns) <= _FEW and sum(column.takes(_ROOM) for column in columns) <= room:
        yield columns
        return
    block: list[_Column] = []
    for column in columns:
        if block and sum(each.takes(_LONG) for each in (*block, column)) > room:
            yield block
            block = []
        block.append(column)
    yield block


def _block(columns: list[_Column]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0))
    table.add_column("", no_wrap=True)
    for column in columns:
        table.add_column(column.name, overflow="fold")
    for label, *cells in zip(_LABELS, *(column.cells for column in columns), strict=True):
        table.add_row(Text(label, style="dim"), *cells)
    return table


def _list(column: _Column) -> RenderableType:
    """Return one node for a console that has no room beside the labels."""
    lines: list[RenderableType] = [column.name]
    for label, cell in zip(_LABELS, column.cells, strict=True):
        lines += [Text(label, style="dim"), Padding(cell, (0, 0, 0, _GAP))]
    return Group(*lines)


def _column(name: str, host: HostReport) -> _Column:
    status = Text(host.status, style=STATUS_STYLES[host.status])
    node = NodeState.model_validate(host.facts) if host.facts else None
    return _Column(
        Text(visible(name), style="bold"), (status, *(_cell(fact, node, host) for fact in FACTS))
    )


def _cell(fact: Fact, node: NodeState | None, host: HostReport) -> Text:
    if node is None:
        return Text("?", style="bold red")
    value = fact.value(node)
    if value is None:
        return Text(UNREADABLE, style="bold red")
    if fact.is_marked(host.findings):
        return Text(f"{visible(value)} {WRONG}", style="red")
    return Text(visible(value))

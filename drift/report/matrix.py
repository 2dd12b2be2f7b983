"""The table's matrix: nodes as columns, in as many blocks as the console's width asks for."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from gpu_node.drift.engine.compare import UNREADABLE
from gpu_node.drift.engine.fact import Fact
from gpu_node.drift.engine.shown_facts import FACTS, facts_of
from gpu_node.drift.ranges import gathered, ranges
from gpu_node.drift.report.model import HostReport, Status
from gpu_node.drift.report.signs import WRONG
from gpu_node.facts.node import NodeState, state_of
from gpu_node.inventories.escape import visible

STATUS_STYLES: Mapping[Status, str] = {
    "ok": "green",
    "drift": "red",
    "unreachable": "bold red",
    "unreadable": "bold red",
}

_GAP = 2
# So few nodes are worth comparing side by side even where longer values than _ROOM fold for it.
_FEW = 3
_ROOM = 20
# Of a label: a package may have any name.
_LABEL = 60
# Rows of what only some nodes have: as many as a person would read.
_MOST_OF_NODES = 10
# A longer value folds in any case: it would take the room of two nodes.
_LONG = 32


@dataclass(frozen=True)
class Column:
    """A node's name and its cells, one for each of the labels."""

    name: Text
    cells: tuple[Text, ...]

    def takes(self, most: int) -> int:
        """How much of a line it takes when what is wider than `most` folds."""
        return _GAP + min(most, max(text.cell_len for text in (self.name, *self.cells)))


def matrix(
    facts: tuple[list[str], list[Column]], width: int, alike: bool = False
) -> RenderableType:
    """Return facts (`labels_and_columns`), no wider than `width`; a blank line parts the blocks.

    With `alike`, nodes with the same values share a column, and the largest group is the first.
    """
    labels, columns = facts
    if alike:
        columns = _shared(columns)
    room = width - max(map(cell_len, labels))
    if room < _GAP + _ROOM:
        return _apart(_list(labels, column) for column in columns)
    return _apart(_block(labels, block) for block in _blocks(columns, room))


def labels_and_columns(hosts: Mapping[str, HostReport]) -> tuple[list[str], list[Column]]:
    """Return what the facts are called, and a column for each node."""
    nodes = {name: node_of(host) for name, host in hosts.items()}
    facts = [fact for fact in FACTS if _is_shown(fact, nodes.values())]
    facts += _of_nodes([node for node in nodes.values() if node is not None])
    labels = ["status", *(visible(fact.name, _LABEL) for fact in facts)]
    return labels, [_column(name, host, nodes[name], facts) for name, host in hosts.items()]


def _of_nodes(nodes: list[NodeState]) -> list[Fact]:
    """Return facts about what only some nodes have, such as packages: the first that differ."""
    apart = [
        fact
        for fact in facts_of(nodes)
        if len({fact.value(node) for node in nodes if fact.is_asked(node)}) > 1
    ]
    return apart[:_MOST_OF_NODES]


def node_of(host: HostReport) -> NodeState | None:
    """Return a node's state; a report of an older version may lack an area."""
    if isinstance(host.facts, NodeState):
        return host.facts
    return state_of(host.facts) if host.facts else None


def _is_shown(fact: Fact, nodes: Iterable[NodeState | None]) -> bool:
    """Whether some node has the fact; one that every node has is shown even where none answers."""
    return fact.applies is None or any(node is not None and fact.is_asked(node) for node in nodes)


def _apart(parts: Iterator[RenderableType]) -> RenderableType:
    lines = [each for part in parts for each in (part, Text())]
    return Group(*lines[:-1])


def _blocks(columns: list[Column], room: int) -> Iterator[list[Column]]:
    """Yield the columns that stand side by side in `room`."""
    if len(columns) <= _FEW and sum(column.takes(_ROOM) for column in columns) <= room:
        yield columns
        return
    block: list[Column] = []
    for column in columns:
        if block and sum(each.takes(_LONG) for each in (*block, column)) > room:
            yield block
            block = []
        block.append(column)
    yield block


def _shared(columns: Iterable[Column]) -> list[Column]:
    """Return a column for each group of nodes that have the same values."""
    groups = gathered(
        (tuple((cell.plain, cell.style) for cell in each.cells), each) for each in columns
    )
    return [
        Column(Text(ranges(each.name.plain for each in group), style="bold"), group[0].cells)
        for group in sorted(groups.values(), key=len, reverse=True)
    ]


def _block(labels: list[str], columns: list[Column]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0))
    table.add_column("", no_wrap=True)
    for column in columns:
        table.add_column(column.name, overflow="fold")
    for label, *cells in zip(labels, *(column.cells for column in columns), strict=True):
        table.add_row(Text(label, style="dim"), *cells)
    return table


def _list(labels: list[str], column: Column) -> RenderableType:
    """Return one node for a console that has no room beside the labels."""
    lines: list[RenderableType] = [column.name]
    for label, cell in zip(labels, column.cells, strict=True):
        lines += [Text(label, style="dim"), Padding(cell, (0, 0, 0, _GAP))]
    return Group(*lines)


def _column(name: str, host: HostReport, node: NodeState | None, facts: list[Fact]) -> Column:
    status = Text(host.status, style=STATUS_STYLES[host.status])
    cells = (_cell(fact, node, host) for fact in facts)
    return Column(Text(visible(name), style="bold"), (status, *cells))


def _cell(fact: Fact, node: NodeState | None, host: HostReport) -> Text:
    if node is None:
        return Text("?", style="bold red")
    if not fact.is_asked(node):
        return Text("-", style="dim")
    value = fact.value(node)
    if value is None:
        return Text(UNREADABLE, style="bold red")
    if fact.is_marked(host.findings):
        return Text(f"{visible(value)} {WRONG}", style="red")
    return Text(visible(value))

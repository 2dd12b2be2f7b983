"""What a verification found, for people: nodes as columns, what went wrong, and the verdict."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from gpu_node.inventories.escape import visible
from gpu_node.inventories.fields.sizes import format_size
from gpu_node.verify.outcome import Outcome, Row

# Nodes beside each other in one table.
_BESIDE = 4


def render(outcome: Outcome) -> RenderableType:
    """Return a table with nodes as columns, then what went wrong, and the verdict."""
    rows = [outcome.rows[at : at + _BESIDE] for at in range(0, len(outcome.rows), _BESIDE)]
    parts: list[RenderableType] = [part for some in rows for part in (_table(some), Text())]
    return Group(*parts, *_lines(outcome))


def _table(rows: Iterable[Row]) -> Table:
    rows = list(rows)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("", style="dim", no_wrap=True)
    for row in rows:
        table.add_column(Text(visible(row.node)), overflow="fold")
    for label, values in _aspects(rows):
        if any(values):
            table.add_row(label, *(Text(visible(value) or "-") for value in values))
    return table


def _aspects(rows: list[Row]) -> Iterator[tuple[str, list[str]]]:
    yield "ranks", [row.ranks for row in rows]
    yield "reached", [row.stage for row in rows]
    yield "device", [row.device for row in rows]
    yield "data went by", [row.network for row in rows]
    yield "NCCL_SOCKET_IFNAME", [row.ifname for row in rows]
    yield "torch", [row.torch for row in rows]
    yield "NCCL", [row.nccl for row in rows]
    yield "open files", ["" if row.nofile is None else str(row.nofile) for row in rows]
    yield "/dev/shm", ["" if row.shm is None else _rounded(row.shm) for row in rows]


def _rounded(size: int) -> str:
    """Return 8G for a round size, and 23.5G for one like half of the memory."""
    exact = format_size(size)
    return f"{size / (1 << 30):.1f}G" if exact.isdigit() else exact


def _lines(outcome: Outcome) -> Iterator[RenderableType]:
    for problem in outcome.problems:
        yield Text.assemble(("error", "bold red"), "  ", visible(problem))
    for note in outcome.notes:
        yield Text.assemble(("note", "bold"), "  ", visible(note))
    if outcome.how:
        yield Text(visible(f"{outcome.how}{_speed(outcome)}"))
    if outcome.ok:
        yield Text("verified: every rank computed the right sums", style="bold green")
    else:
        yield Text("not verified", style="bold red")


def _speed(outcome: Outcome) -> str:
    if outcome.bandwidth is None:
        return ""
    speed = outcome.bandwidth / 1e9
    return f": {speed:.2f} GB/s bus bandwidth with {format_size(outcome.size)}"

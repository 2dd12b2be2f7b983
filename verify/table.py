"""What a verification found, for people: nodes as columns, what went wrong, and the verdict."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from gpu_node.drift.units import size
from gpu_node.inventories.escape import visible, visible_json
from gpu_node.inventories.fields.sizes import format_size
from gpu_node.inventories.plurals import few
from gpu_node.verify.outcome import Outcome, Row

# Nodes beside each other in one table, and pairs below each other.
_BESIDE, _MOST_PAIRS = 4, 12


def render(outcome: Outcome) -> RenderableType:
    """Return a table with nodes as columns, then what went wrong, and the verdict."""
    rows = [outcome.rows[at : at + _BESIDE] for at in range(0, len(outcome.rows), _BESIDE)]
    parts: list[RenderableType] = [part for some in rows for part in (_table(some), Text())]
    return Group(*parts, *_lines(outcome))


def as_json(outcome: Outcome) -> str:
    """Return the outcome as JSON: each field of `Outcome` by its name."""
    return visible_json(json.dumps(asdict(outcome), indent=2, ensure_ascii=False))


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
    yield "/dev/shm", ["" if row.shm is None else size(row.shm) for row in rows]


def _pairs(outcome: Outcome) -> Iterator[RenderableType]:
    """Yield a line for each pair that works, the slowest first, then the working set."""
    pairs = {each.members: each for each in outcome.tries if len(each.members) == 2}
    lines = [
        f"{' and '.join(each.members)}: {_rate(each.bandwidth)} of {_rate(each.link)}"
        for each in sorted(pairs.values(), key=lambda each: each.bandwidth or 0)
        if not each.why
    ]
    for line in few(lines, _MOST_PAIRS, "{} quicker pairs"):
        yield Text(visible(line))
    if outcome.working and outcome.named:
        yield Text("the largest set that works, as a hostfile:")
        for name, slots in outcome.working.items():
            yield Text(f"{visible(name)} slots={slots}")


def _rate(speed: float | None) -> str:
    return "an unknown speed" if speed is None else f"{speed / 1e9:.3g} GB/s"


def _lines(outcome: Outcome) -> Iterator[RenderableType]:
    yield from _pairs(outcome)
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
    return f": {outcome.bandwidth / 1e9:.2f} GB/s bus bandwidth with {format_size(outcome.size)}"

"""The pre-flight for people: a table of what was found, then why it may not go on, and the cure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from gpu_node.drift.engine.preflight import Row, Verdict
from gpu_node.drift.report.entry import entry
from gpu_node.drift.report.signs import SEVERITY_STYLES
from gpu_node.inventories.escape import visible
from gpu_node.inventories.plurals import counted

_STYLES: dict[Verdict, str] = {
    "ok": "green",
    "warning": SEVERITY_STYLES["warning"],
    "stop": SEVERITY_STYLES["error"],
}


def table(rows: Sequence[Row], changed: Sequence[str] = ()) -> RenderableType:
    """Return the pre-flight as a rich renderable; what stops comes first below the table.

    `changed` has in words what this run has changed before it.
    """
    matrix = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    matrix.add_column("checked", overflow="fold", max_width=30)
    matrix.add_column("found", overflow="fold", ratio=1)
    matrix.add_column("verdict", no_wrap=True)
    for row in rows:
        word = Text(row.verdict, style=_STYLES[row.verdict])
        matrix.add_row(Text(visible(row.subject)), Text(visible(row.found)), word)
    shown = [row for verdict in ("stop", "warning") for row in rows if row.verdict == verdict]
    return Group(matrix, Text(), *(_entry(row) for row in shown), _summary(rows, changed))


def _entry(row: Row) -> RenderableType:
    head = Text.assemble((row.verdict, _STYLES[row.verdict]), "  ", (visible(row.subject), "bold"))
    return entry(head, _lines(row))


def _lines(row: Row) -> Iterator[tuple[str, str]]:
    yield "found", row.found
    if row.wanted:
        yield "wanted", row.wanted
    if row.why:
        yield "why", row.why
    if row.fix:
        yield "next step", row.fix


def _summary(rows: Sequence[Row], changed: Sequence[str]) -> Text:
    stops, warnings = (
        sum(1 for row in rows if row.verdict == verdict) for verdict in ("stop", "warning")
    )
    counts = [counted(len(rows), "check")]
    counts += [counted(stops, "stop")] if stops else []
    counts += [counted(warnings, "warning")] if warnings else []
    ending = ""
    if stops:
        but = f"the inventory is unchanged, but {', and '.join(changed)}"
        ending = f"; {but if changed else 'nothing was changed'}"
    return Text(", ".join(counts) + ending, style="bold" if stops or warnings else "bold green")

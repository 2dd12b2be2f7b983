"""What a deploy repairs in a few lines: by area before it, by node after a dry run."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from gpu_node.drift.ranges import ranges
from gpu_node.drift.report.entry import whole
from gpu_node.drift.report.model import HostReport, Report
from gpu_node.drift.report.outline import counts
from gpu_node.drift.report.problems import Problem, problems, repair_of
from gpu_node.drift.report.signs import of_severity
from gpu_node.facts.areas import AREAS
from gpu_node.inventories.escape import visible

_GAP = 2


def announcement(report: Report) -> RenderableType:
    """Return the counts of a report, and a line for each area that a deploy repairs.

    What needs manual action is one line: the report has its details.
    """
    listed = problems(report.hosts)
    repaired = [each for each in listed if repair_of(each, report.hosts) in ("deploy", "partly")]
    left = [each for each in listed if each not in repaired]
    parts: list[RenderableType] = [counts(report, listed)]
    if repaired:
        rows = list(_areas(repaired, report.hosts))
        parts += [Text(), Text("the deploy repairs (number of findings):"), _lines(rows)]
    if left:
        parts += [Text(), Text(f"needs manual action: {_named(left)}")]
    parts += [Text(), whole(f"more: {shlex.join(['gpu-node', 'drift', report.inventory])}")]
    return Group(*parts)


def plan_of_each(report: Report, without: Collection[str] = ()) -> RenderableType:
    """Return a line for each node: the problems that a deploy would repair on it.

    `without` are the nodes for which the dry run has failed.
    """
    rows = []
    for name, host in report.hosts.items():
        repaired = [
            problem
            for problem in problems({name: host})
            if repair_of(problem, report.hosts) in ("deploy", "partly")
        ]
        if host.error or name in without:
            words = str(host.status) if host.error else "not planned; its error is above"
        else:
            words = f"would repair {_named(repaired)}" if repaired else "nothing to repair"
        rows.append((Text(visible(name)), Text(words)))
    return _lines(rows)


def unrepaired(report: Report) -> str:
    """Return the line about a report of which the deploy repairs nothing."""
    listed = problems(report.hosts)
    counts = {word: sum(each.severity == word for each in listed) for word in ("error", "warning")}
    left = [of_severity(count, word) for word, count in counts.items() if count]
    if not left:
        return "Nothing to repair."
    verb = "needs" if sum(counts.values()) == 1 else "need"
    return f"Nothing that the deploy can repair; {' and '.join(left)} {verb} manual action."


def _areas(
    listed: Sequence[Problem], nodes: Mapping[str, HostReport]
) -> Iterator[tuple[Text, Text, Text]]:
    by_area: dict[str, list[Problem]] = {}
    for each in listed:
        by_area.setdefault(each.id.partition(".")[0], []).append(each)
    for area in sorted(by_area, key=_place):
        on = {name for each in by_area[area] for name in each.nodes}
        where = ranges([name for name in nodes if name in on], nodes)
        yield Text(area), Text(visible(where)), Text(_named(by_area[area]))


def _place(area: str) -> int:
    return AREAS.index(area) if area in AREAS else len(AREAS)


def _named(listed: Sequence[Problem]) -> str:
    """Return the ids of problems, each with the number of its findings where it has several."""
    return ", ".join(
        f"{each.id} ({len(each.all)})" if len(each.all) > 1 else each.id for each in listed
    )


def _lines(rows: Sequence[Sequence[Text]]) -> RenderableType:
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, _GAP, 0, 0))
    for row in rows:
        table.add_row(*row)
    return Padding(table, (0, 0, 0, _GAP))

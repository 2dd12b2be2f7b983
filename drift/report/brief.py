"""What a deploy repairs in a few lines: by area before it, by node after it or a dry run."""

import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from gpu_node.drift.engine.finding import Finding
from gpu_node.drift.ranges import gathered, ranges
from gpu_node.drift.report.entry import lines, whole
from gpu_node.drift.report.model import HostReport, Report
from gpu_node.drift.report.problems import NEEDS_ROOT, Problem, problems
from gpu_node.drift.report.signs import of_severity
from gpu_node.drift.report.view import Row, View
from gpu_node.facts.areas import AREAS
from gpu_node.inventories.escape import visible

_GAP = 2


def announcement(report: Report) -> RenderableType:
    """Return the counts of a report, and a line for each area that a deploy repairs.

    What needs manual action is one line: the report has its details.
    """
    view = View(report)
    repaired, left = (
        [each.problem for each in view.rows if each.is_repaired is wanted]
        for wanted in (True, False)
    )
    parts: list[RenderableType] = [*lines([view.head])]
    if repaired:
        rows = list(_areas(repaired, report.hosts))
        parts += [Text(), Text("the deploy repairs (number of findings):"), _lines(rows)]
    if left:
        parts += [Text(), Text(f"needs manual action: {_named(left)}")]
    parts += [Text(), whole(f"more: {shlex.join(['gpu-node', 'drift', report.inventory])}")]
    return Group(*parts)


def plan_of_each(report: Report, without: Collection[str] = ()) -> RenderableType:
    """Return a line for each node: the problems that a deploy would repair on it.

    Behind them the rules whose errors it would leave. `without` are the nodes for which the dry run
    has failed.
    """
    rows = []
    for name, host in report.hosts.items():
        rows_of = View(report.part(None, [name])).rows
        repaired = [each.problem for each in rows_of if each.is_repaired]
        if host.error or name in without:
            words = str(host.status) if host.error else "not planned; its error is above"
        else:
            words = f"would repair {_named(repaired)}" if repaired else "nothing to repair"
            own = [on.finding for each in rows_of for on in each.problem.own]
            left = [each.rule for each in own if each.severity == "error" and not each.fixable]
            words += f"; left to you: {', '.join(dict.fromkeys(left))}" * bool(left)
        rows.append((Text(visible(name)), Text(words)))
    return _lines(rows)


def repaired(before: Report, after: Report) -> dict[str, str]:
    """Return the problems that a deploy has repaired, by node.

    A finding is not repaired where a part of its area could be read before, and cannot any more.
    """
    found = {}
    for name, host in before.hosts.items():
        now = after.hosts[name]
        there = {_key(each) for each in now.findings}
        was = {_key(each) for each in host.findings}
        new = [each for each in now.findings if _key(each) not in was]
        unread = {each.area for each in new if each.rule == f"{each.area}.unreadable"}
        gone = [
            each for each in host.findings if _key(each) not in there and each.area not in unread
        ]
        listed = problems({name: host.model_copy(update={"findings": gone})})
        if not now.error and (done := [each for each in listed if each.repair != "manual"]):
            found[name] = _named(done)
    return found


def outcome(before: Report, after: Report) -> RenderableType:
    """Return what a deploy has repaired on which nodes, and which problems are left, and why."""
    by_words = gathered((words, name) for name, words in repaired(before, after).items())
    rows = [(Text("repaired"), _nodes(on, before), Text(words)) for words, on in by_words.items()]
    rows = rows or [(Text("repaired"), Text(), Text("nothing"))]
    view = View(after)
    for each in view.unread:
        rows.append((Text("left"), _nodes(each.nodes, before), Text(each.status)))
    for row in view.rows:
        if row.problem.severity != "info":
            why = f"{row.problem.id}: {_why_left(row, before)}"
            rows.append((Text("left"), _nodes(row.problem.nodes, before), Text(why)))
    return _lines(rows)


def _key(finding: Finding) -> tuple[str, str]:
    return finding.rule, finding.subject


def _nodes(names: Collection[str], report: Report) -> Text:
    return Text(visible(ranges(names, report.hosts)))


def _why_left(row: Row, before: Report) -> str:
    """Return why a problem is left after a deploy."""
    if not row.is_repaired:
        return "needs manual action"
    was = {(name, *_key(each)) for name, host in before.hosts.items() for each in host.findings}
    if any((on.node, *_key(on.finding)) in was for on in row.problem.own if on.finding.fixable):
        return "not repaired, see above"
    return "found only after this repair; run the deploy again"


def unrepaired(report: Report) -> str:
    """Return the line about a report of which the deploy repairs nothing."""
    if all(host.error for host in report.hosts.values()):
        return "No node could be read."
    if closed := without_root(report):
        return (
            f"{visible(ranges(closed))}: the deploy needs root; next: gpu-node explain {NEEDS_ROOT}"
        )
    listed = problems(report.hosts)
    counts = {word: sum(each.severity == word for each in listed) for word in ("error", "warning")}
    left = [of_severity(count, word) for word, count in counts.items() if count]
    if not left:
        return "Nothing to repair."
    verb = "needs" if sum(counts.values()) == 1 else "need"
    return f"Nothing that the deploy can repair; {' and '.join(left)} {verb} manual action."


def without_root(report: Report) -> list[str]:
    """Return the nodes with problems that a user without root has read: root may find others."""
    hosts = report.hosts.items()
    return [name for name, host in hosts if host.without_root and host.status != "ok"]


def _areas(
    listed: Sequence[Problem], nodes: Mapping[str, HostReport]
) -> Iterator[tuple[Text, Text, Text]]:
    by_area = gathered((each.id.partition(".")[0], each) for each in listed)
    order = [*(area for area in AREAS if area in by_area), *(by_area.keys() - {*AREAS})]
    for area in order:
        on = {name for each in by_area[area] for name in each.nodes}
        where = ranges([name for name in nodes if name in on], nodes)
        yield Text(area), Text(visible(where)), Text(_named(by_area[area]))


def _named(listed: Sequence[Problem]) -> str:
    """Return the ids of problems, each with the number of its findings where it has several.

    Where the deploy repairs a part of it, that of the part.
    """
    counts = ((each.id, _count(each)) for each in listed)
    return ", ".join(f"{name} ({count})" if count > 1 else name for name, count in counts)


def _count(problem: Problem) -> int:
    left = [each for each in problem.own if not each.finding.fixable]
    return len(problem.all) - len(left) * (problem.repair == "partly")


def _lines(rows: Sequence[Sequence[Text]]) -> RenderableType:
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, _GAP, 0, 0))
    for row in rows:
        table.add_row(*row)
    return Padding(table, (0, 0, 0, _GAP))

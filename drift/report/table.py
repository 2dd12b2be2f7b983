"""The report for people: a line for each problem on one screen, and the command to run next."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping, Sequence

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from gpu_node.drift.ranges import ranges
from gpu_node.drift.report import changes, full, off
from gpu_node.drift.report.commas import at_commas, cut
from gpu_node.drift.report.entry import whole
from gpu_node.drift.report.formats import Page, printed
from gpu_node.drift.report.matrix import STATUS_STYLES, matrix
from gpu_node.drift.report.model import HostReport, Report
from gpu_node.drift.report.outline import counts, of_jobs, outline
from gpu_node.drift.report.problems import (
    WANT,
    Problem,
    chosen,
    errors,
    leads_to,
    only_lines,
    problems,
    repair_of,
    without_root,
)
from gpu_node.drift.report.problems import parts as parts_of
from gpu_node.drift.report.signs import SEVERITY_STYLES
from gpu_node.drift.report.start import start_line
from gpu_node.inventories.escape import visible, visible_lines
from gpu_node.inventories.next_command import deploy_command, next_command
from gpu_node.inventories.plurals import counted

# Lines of one problem: what is wrong, what follows from it, and what helps without root. A first
# finding that needs another line has it, and all has it in a narrow console.
_LINES, _AFTER, _ALONE = 2, 1, 6
_FIRST_LINES, _NARROW = 3, 60
_CUT, _CUT_NAMES = " ... (--full)", " ..."
_GAP = 2
# With less room beside the other columns what is wrong is below them; with still less it is a list.
_BESIDE, _ROOM = 60, 24
_HEADS = ("", "nodes", "problem", "repair", "findings")
# Errors of nodes that are shown; the others are named.
_MOST_ERRORS = 3


def parts(report: Report, page: Page) -> tuple[str]:
    """Return the report for a page, as its console prints it."""
    width = page.console.width
    if page.full:
        facts = (page.facts or not page.only) and not page.head
        whole_report = full.render(report, width, page.only, facts)
        head = [Text(page.head, style="bold"), Text()] if page.head else []
        is_whole = report.hosts and not page.head and not page.only
        last = [start_line(report)] if is_whole else []
        return (printed(Group(*head, whole_report, *last), page.console),)
    shown = render(report, width, page.facts, page.only, head=page.head)
    return (printed(shown, page.console),)


def render(
    report: Report,
    width: int,
    facts: bool = False,
    only: Collection[str] = (),
    next_step: bool = True,
    of_run: Sequence[str] | None = None,
    elsewhere: Mapping[str, str] | None = None,
    head: str = "",
) -> RenderableType:
    """Return the report as a rich renderable for a console of this width.

    `facts` come first where asked for; `only` chooses problems by rule, area or node; without
    `next_step` the table ends with the problems. `of_run` are the options of the deploy that
    prints it: the next one has the same. `elsewhere`: see `outline`. `head`: see `Page`.
    """
    listed = problems(report.hosts)
    shown = list(chosen(listed, only)) if only else listed
    parts: list[RenderableType] = [*of_jobs(report)]
    if facts:
        parts += [matrix(report.hosts, width, alike=True), Text()]
    if next_step and of_run is None and not head:
        parts += outline(report.hosts, elsewhere)
    parts += off.lines(report.hosts, width, only)
    parts.append(Text(head, style="bold") if head else counts(report, listed))
    if shown:
        parts += [Text(), _problems(shown, report, width)]
    parts += only_lines(only, len(shown), len(listed), report.hosts) if only else ()
    parts += _unreached(report.hosts, only, width)
    parts += changes.lines(report.changes, report.hosts)
    if next_step:
        parts += [*full.why_one_lines(report), *_next(report, shown, of_run)]
    if next_step and not head and not only and report.hosts:
        parts.append(Text("\n").join(_cut(start_line(report), width, _FIRST_LINES)))
    return Group(*parts)


def _problems(listed: Sequence[Problem], report: Report, width: int) -> RenderableType:
    """Return a table with a row for each problem, or a list where it has no room."""
    nodes = report.hosts
    names = [Text(visible(ranges(each.nodes, nodes))) for each in listed]
    widest = min(max(name.cell_len for name in (*names, Text(_HEADS[1]))), max(width // 6, 8))
    severity = max(len(each.severity) for each in listed)
    room = width - severity - widest - len("manual") - len(_HEADS[-1]) - 4 * _GAP
    if room < _ROOM:
        return Group(
            *(_below(each, name, report, width) for each, name in zip(listed, names, strict=True))
        )
    rows: list[RenderableType] = []
    for each, name in zip(listed, names, strict=True):
        head = Text(f"{changes.mark(report.changes, each.all)}{each.id}", style="bold")
        below: Sequence[Text] = ()
        if room < _BESIDE:
            below = _lines(each, nodes, width - _GAP, Text())
        else:
            head = Text("\n").join(_lines(each, nodes, room, head + Text("  ", style="none")))
        cells = (_severity(each), _few(name, widest), head)
        row = _row((severity, widest, room), not rows)
        row.add_row(*cells, repair_of(each, nodes), str(len(each.all)))
        rows += [row, *(Padding(line, (0, 0, 0, _GAP)) for line in below)]
    return Group(*rows)


def _row(widths: Sequence[int], is_first: bool) -> Table:
    """Return an empty row of the table of problems, with the heads of its columns where first."""
    table = Table(
        box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="dim", show_header=is_first
    )
    for head, width in zip(_HEADS[:3], widths, strict=True):
        table.add_column(head, width=width, overflow="fold")
    table.add_column(_HEADS[3], width=len("manual"), no_wrap=True)
    table.add_column(_HEADS[4], width=len(_HEADS[4]), no_wrap=True, justify="right")
    return table


def _lines(problem: Problem, nodes: Mapping[str, HostReport], room: int, head: Text) -> list[Text]:
    """Return what is wrong as lines behind a head, and below it what follows from it."""
    found = [(visible(words), count) for words, count in parts_of(problem, list(nodes))]
    return [*_folded(head, found, room), *_below_it(problem, nodes, room)]


def _below(problem: Problem, name: Text, report: Report, width: int) -> RenderableType:
    """Return a problem for a narrow console: its columns, and below them what is wrong."""
    nodes = report.hosts
    new = changes.mark(report.changes, problem.all)
    head = Text("  ").join(
        [
            _severity(problem),
            Text(f"{new}{problem.id}", style="bold"),
            _few(name, width),
            Text(f"{repair_of(problem, nodes)}, {counted(len(problem.all), 'finding')}"),
        ]
    )
    lines = _lines(problem, nodes, max(width - _GAP, 8), Text())
    return Group(head, Padding(Text("\n").join(lines), (0, 0, 0, _GAP)))


def _severity(problem: Problem) -> Text:
    return Text(problem.severity, style=SEVERITY_STYLES[problem.severity])


def _below_it(problem: Problem, nodes: Mapping[str, HostReport], room: int) -> list[Text]:
    """Return the lines below what is wrong."""
    lines = _cut(_after(problem), room, _AFTER)
    by_user = {name for name, host in nodes.items() if host.without_root}
    for label, words in zip(
        ("without root", "as root"), without_root(problem, by_user), strict=True
    ):
        if words:
            lines += _cut(Text(f"{label}: {visible(words)}", style="dim"), room, _ALONE)
    return lines


def _after(problem: Problem) -> Text:
    """Return the rules whose findings this problem explains."""
    rules = leads_to(problem)
    return Text(f"leads to {', '.join(rules)}" if rules else "", style="dim")


def _few(words: Text, room: int) -> Text:
    return Text("\n").join(_cut(words, room, end=_CUT_NAMES))


def _folded(head: Text, parts: Sequence[tuple[str, int]], room: int) -> list[Text]:
    """Return findings behind a head as lines: as many as have room, whole, and how many have none.

    Each part has the number of findings that it is about.

    The first is always shown; if it has no room alone, it is cut before its end: that is what is
    wanted.
    """

    def shown(count: int) -> Text:
        more = sum(findings for _, findings in parts[count:])
        end = f"; {more} more (--full)" if more else ""
        return head + Text(f"{'; '.join(words for words, _ in parts[:count])}{end}")

    most = _LINES if room > _NARROW else _FIRST_LINES
    first = _wrapped(shown(1), room)
    if len(first) > _FIRST_LINES:
        words = head + Text(parts[0][0])
        if WANT in parts[0][0]:
            words = _without_middle(words, words.plain, room)
        elif len(parts) > 1:
            words += Text(";")
        return _cut(words, room, _FIRST_LINES)
    most = max(most, len(first))
    if len(whole_text := _wrapped(shown(len(parts)), room)) <= most:
        return whole_text
    lines = first
    for count in range(2, len(parts)):
        if len(longer := _wrapped(shown(count), room)) > most:
            break
        lines = longer
    return lines


def _without_middle(words: Text, first: str, room: int) -> Text:
    """Return the first finding with as much before what is wanted as there is room for."""
    before, _, wanted = first.rpartition(WANT)

    def shortened(size: int) -> Text:
        kept = words.copy()
        cut(kept, size)
        return kept + Text(f" ...{WANT}{wanted}{_CUT}")

    def is_too_long(size: int) -> bool:
        return len(_wrapped(shortened(size), room)) > _FIRST_LINES

    sizes = range(min(len(before), _FIRST_LINES * room))
    return shortened(max(bisect_left(sizes, True, key=is_too_long) - 1, 0))


def _wrapped(words: Text, room: int) -> list[Text]:
    console = Console(width=room, markup=False, emoji=False)
    lines = list(at_commas(words, room).wrap(console, room, overflow="fold"))
    for line in lines:
        line.rstrip()
    return lines


def _cut(words: Text, room: int, most: int = _LINES, end: str = _CUT) -> list[Text]:
    """Return words as lines of a width; what exceeds `most` lines is left out, as `end` says."""
    if not words.plain:
        return []
    lines = _wrapped(words, room)
    if len(lines) > most:
        end = end if len(end) < room // 2 else _CUT_NAMES
        last = lines[most - 1]
        cut(last, room - len(end))
        last.append(end)
    return lines[:most]


def _unreached(
    hosts: Mapping[str, HostReport], only: Collection[str], width: int
) -> Iterator[RenderableType]:
    """Yield the errors of nodes that did not answer, one for all nodes that have the same.

    Of many only the first ones: the names of the other nodes follow.
    """
    shown = list(errors(hosts, only).items())
    for (status, error), names in shown[:_MOST_ERRORS]:
        yield Text()
        named = (visible(ranges(names)), "bold")
        yield at_commas(Text.assemble((status, STATUS_STYLES[status]), "  ", named), width)
        yield Padding(Text(visible_lines(error)), (0, 0, 0, _GAP))
    if more := [name for _, names in shown[_MOST_ERRORS:] for name in names]:
        yield Text()
        others = f"{len(more)} more: {visible(ranges(more))}"
        yield at_commas(Text(f"no answer from {others}; --full shows why"), width)


# What a word of the column `repair` means; {} is what shows the fix.
LEGEND = {
    "deploy": "gpu-node deploy repairs it",
    "partly": "gpu-node deploy repairs a part",
    "manual": "you do, as {} shows",
    "admin": "root does; gpu-node has no root there",
}


def _legend(shown: Sequence[Problem], nodes: Mapping[str, HostReport]) -> str:
    words = {repair_of(each, nodes) for each in shown}
    return "; ".join(f"{word}: {LEGEND[word].format('--full')}" for word in LEGEND if word in words)


def _next(report: Report, shown: Sequence[Problem], of_run: Sequence[str] | None) -> Iterator[Text]:
    """Yield where more is, and at the end the one command to run next."""
    if not shown:
        return
    yield Text()
    more = f"more: gpu-node explain {shown[0].id}"
    if of_run is not None:
        yield whole(more)
        drift = next_command("drift", report.inventory, "--full")
        yield whole(f"every finding: {drift}")
    else:
        if any(repair_of(each, report.hosts) != "deploy" for each in shown):
            yield Text(_legend(shown, report.hosts), style="dim")
        yield Text(f"{more}; every finding: --full", style="dim")
    if any(repair_of(each, report.hosts) in ("deploy", "partly") for each in shown):
        yield whole(f"repair: {deploy_command(report.inventory, of_run or ())}")

"""The report for people: a line for each problem on one screen, and the command to run next."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from gpu_node.drift.ranges import ranges
from gpu_node.drift.report import full
from gpu_node.drift.report.entry import lines, listed, whole
from gpu_node.drift.report.formats import Page, printed
from gpu_node.drift.report.matrix import STATUS_STYLES, matrix
from gpu_node.drift.report.problems import WANT
from gpu_node.drift.report.signs import SEVERITY_STYLES
from gpu_node.drift.report.view import Row, View
from gpu_node.drift.report.width import CUT, CUT_NAMES, cut, fitted
from gpu_node.inventories.escape import visible, visible_lines
from gpu_node.inventories.next_command import next_command
from gpu_node.inventories.plurals import counted

# Lines of one problem: what is wrong, what follows from it, and what helps without root. A first
# finding that needs another line has it, and all has it in a narrow console.
_LINES, _AFTER, _ALONE = 2, 1, 6
_FIRST_LINES, _NARROW = 3, 60
_GAP = 2
# With less room beside the other columns what is wrong is below them; with still less it is a list.
_BESIDE, _ROOM = 60, 24
_HEADS = ("", "nodes", "problem", "repair", "findings")
# Errors of nodes that are shown; the others are named.
_MOST_ERRORS = 3


def parts(view: View, page: Page) -> tuple[str]:
    """Return the report for a page, as its console prints it."""
    made = full.render if page.full else render
    return (printed(made(view, page.console.width, page.facts), page.console),)


def render(
    view: View, width: int, facts: bool = False, next_step: bool = True, again: bool = False
) -> RenderableType:
    """Return the report as a rich renderable for a console of this width.

    `facts` come first where asked for; without `next_step` the table ends with the problems.
    `again`: a deploy prints it, and its reader has seen what the nodes have.
    """
    parts: list[RenderableType] = [*lines(view.in_jobs), *[Text()] * bool(view.in_jobs)]
    if facts:
        parts += [matrix(view.facts, width, alike=True), Text()]
    if next_step and not again and not view.given:
        parts += lines(view.kinds)
    parts += listed((each for each in view.off if each.depth < 2), width)
    parts += lines([view.head])
    if view.rows:
        parts += [Text(), _problems(view, width)]
    parts += [*lines(view.left_out), *_unread(view, width)]
    parts += [*[Text()] * bool(view.changes), *lines(view.changes)]
    if next_step:
        parts += [Text(), Text(view.why, style="dim")] if view.why else []
        parts += _next(view, again)
    if next_step and not again and view.hosts and not view.only:
        parts.append(answer(view, width))
    return Group(*parts)


def answer(view: View, width: int) -> RenderableType:
    """Return whether a job can start, in a few lines."""
    return Group(*(_few(each, width, _FIRST_LINES, CUT) for each in lines(view.answer)))


def _problems(view: View, width: int) -> RenderableType:
    """Return a table with a row for each problem, or a list where it has no room."""
    names = [Text(visible(each.nodes)) for each in view.rows]
    widest = min(max(name.cell_len for name in (*names, Text(_HEADS[1]))), max(width // 5, 8))
    severity = max(len(each.problem.severity) for each in view.rows)
    room = width - severity - widest - len("manual") - len(_HEADS[-1]) - 4 * _GAP
    if room < _ROOM:
        return Group(*(_below(each, width) for each in view.rows))
    shown: list[RenderableType] = []
    for each, name in zip(view.rows, names, strict=True):
        head = Text(f"{each.mark}{each.problem.id}", style="bold")
        below: Sequence[Text] = ()
        if room < _BESIDE:
            below = _lines(each, width - _GAP, Text())
        else:
            head = Text("\n").join(_lines(each, room, head + Text("  ", style="none")))
        row = _row((severity, widest, room), not shown)
        count = str(len(each.problem.all))
        row.add_row(_severity(each), _few(name, widest), head, each.repair, count)
        shown += [row, *(Padding(line, (0, 0, 0, _GAP)) for line in below)]
    return Group(*shown)


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


def _lines(row: Row, room: int, head: Text) -> list[Text]:
    """Return what is wrong as lines behind a head, and below it what follows from it."""
    found = [(visible(words), count) for words, count in row.parts]
    follows = f"leads to {', '.join(row.leads_to)}" if row.leads_to else ""
    lines = _folded(head, found, room) + fitted(Text(follows, style="dim"), room, _AFTER)
    for label, words in zip(("without root", "as root"), row.without_root, strict=True):
        if words:
            lines += fitted(Text(f"{label}: {visible(words)}", style="dim"), room, _ALONE)
    return lines


def _below(row: Row, width: int) -> RenderableType:
    """Return a problem for a narrow console: its columns, and below them what is wrong."""
    head = Text("  ").join(
        [
            _severity(row),
            Text(f"{row.mark}{row.problem.id}", style="bold"),
            _few(Text(visible(row.nodes)), width),
            Text(f"{row.repair}, {counted(len(row.problem.all), 'finding')}"),
        ]
    )
    lines = _lines(row, max(width - _GAP, 8), Text())
    return Group(head, Padding(Text("\n").join(lines), (0, 0, 0, _GAP)))


def _severity(row: Row) -> Text:
    severity = row.problem.severity
    return Text(severity, style=SEVERITY_STYLES[severity])


def _few(words: Text, room: int, most: int = _LINES, end: str = CUT_NAMES) -> Text:
    return Text("\n").join(fitted(words, room, most, end))


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
    first = fitted(shown(1), room)
    if len(first) > _FIRST_LINES:
        words = head + Text(parts[0][0])
        if WANT in parts[0][0]:
            words = _without_middle(words, words.plain, room)
        elif len(parts) > 1:
            words += Text(";")
        return fitted(words, room, _FIRST_LINES)
    most = max(most, len(first))
    if len(whole_text := fitted(shown(len(parts)), room)) <= most:
        return whole_text
    lines = first
    for count in range(2, len(parts)):
        if len(longer := fitted(shown(count), room)) > most:
            break
        lines = longer
    return lines


def _without_middle(words: Text, first: str, room: int) -> Text:
    """Return the first finding with as much before what is wanted as there is room for."""
    before, _, wanted = first.rpartition(WANT)

    def shortened(size: int) -> Text:
        kept = words.copy()
        cut(kept, size)
        return kept + Text(f" ...{WANT}{wanted}{CUT}")

    def is_too_long(size: int) -> bool:
        return len(fitted(shortened(size), room)) > _FIRST_LINES

    sizes = range(min(len(before), _FIRST_LINES * room))
    return shortened(max(bisect_left(sizes, True, key=is_too_long) - 1, 0))


def _unread(view: View, width: int) -> Iterator[RenderableType]:
    """Yield the errors of nodes; of many only the first ones: the names of the others follow."""
    for status, error, names in view.unread[:_MOST_ERRORS]:
        yield Text()
        named = (visible(ranges(names)), "bold")
        yield _few(Text.assemble((status, STATUS_STYLES[status]), "  ", named), width, 0)
        yield Padding(Text(visible_lines(error)), (0, 0, 0, _GAP))
    if more := [name for each in view.unread[_MOST_ERRORS:] for name in each.nodes]:
        yield Text()
        others = f"{len(more)} more: {visible(ranges(more))}"
        yield _few(Text(f"no answer from {others}; --full shows why"), width, 0)


def _next(view: View, again: bool) -> Iterator[Text]:
    """Yield where more is, and at the end the one command to run next."""
    if not view.rows:
        return
    yield Text()
    more = f"more: gpu-node explain {view.rows[0].problem.id}"
    if again:
        yield whole(more)
        yield whole(f"every finding: {next_command('drift', view.report.inventory, '--full')}")
    else:
        if any(each.repair != "deploy" for each in view.rows):
            legend = view.legend("--full")
            yield Text("; ".join(f"{word}: {text}" for word, text in legend), style="dim")
        yield Text(f"{more}; every finding: --full", style="dim")
    if view.repair:
        yield whole(f"repair: {view.repair}")
    if view.with_password:
        yield whole(f"next: {view.with_password}")

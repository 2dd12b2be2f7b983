"""The list of changes that kept reports show: as text, a block for each report, and as JSON."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any

from gpu_node.drift.engine.finding import before_found
from gpu_node.drift.ranges import gathered, ranges
from gpu_node.drift.report.change_words import change, moment
from gpu_node.history.store import RUNS, Event, Kept
from gpu_node.history.when import iso
from gpu_node.inventories.escape import visible
from gpu_node.inventories.plurals import counted, few

# Of one report: more is a change of everything, such as of the version of this program.
_MOST = 200
_LONGEST = 300


def as_text(events: Sequence[Event], nodes: Collection[str]) -> Iterator[str]:
    """Yield the lines of a list of changes; nodes with the same change share one."""
    for at, of_report in groupby(events, key=lambda each: each.at):
        yield moment(iso(at))
        on = gathered((_words(each), each.node) for each in of_report)
        lines = []
        for words, names in on.items():
            kind, _, rest = words.partition("  ")
            lines.append(f"  {kind:7}  {visible(ranges(names, nodes))}  {rest}".rstrip())
        yield from few(lines, _MOST, "  {} more, see --format json")
    if not events:
        yield "no changes"


def _words(event: Event) -> str:
    about = before_found(event.subject, event.node)
    if event.kind == "first":
        return "first  report"
    if event.kind == "fact":
        words = change(event.before, event.now)
    elif event.kind in RUNS:
        words = event.words
    elif event.kind == "changed":
        words = f"{event.before} -> {event.now}  {about}{event.words}"
    else:
        words = f"{event.now or event.before}  {about}{event.words}"
    return f"{event.kind}  {visible(event.name)}  {visible(words, _LONGEST)}"


def as_json(inventory: str, events: Iterable[Event], reports: dict[str, Any]) -> dict[str, Any]:
    """Return the list of changes, schema version 1; `reports` is about all that are kept.

    `before` and `now` are null where there was nothing, or is nothing any more.
    """
    listed = []
    for each in events:
        entry: dict[str, Any] = {"at": iso(each.at), "node": each.node, "kind": each.kind}
        if each.kind == "fact":
            entry |= {"fact": each.name, "before": each.before, "now": each.now}
        elif each.kind in RUNS:
            entry |= {"run": each.name, "done": each.words}
        elif each.kind != "first":
            entry |= {"rule": each.name, "subject": each.subject, "found": each.words}
            entry |= {"severity": {"before": each.before, "now": each.now}}
        listed.append(entry)
    return {"schema": 1, "inventory": inventory, **reports, "changes": listed}


def summary(count: int, first: Kept | None, last: Kept | None, nodes: int) -> str:
    """Return the last line: how many reports are kept, and their first and last time."""
    kept = f"{counted(count, 'report')} of {counted(nodes, 'node')} kept"
    if first is None or last is None:
        return f"{kept}; gpu-node drift keeps one"
    return f"{kept}, {moment(iso(first.at))} to {moment(iso(last.at))}"

"""The list of changes that kept reports show: as text, a block for each report, and as JSON."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime, timezone
from itertools import groupby
from typing import Any

from gpu_node.drift.ranges import ranges
from gpu_node.drift.report.change_words import change, moment
from gpu_node.history.store import RUNS, Event, Kept
from gpu_node.inventories.escape import visible
from gpu_node.inventories.plurals import counted

# Of one report: more is a change of everything, such as of the version of this program.
_MOST = 200
_LONGEST = 300


def iso(at: int) -> str:
    """Return a time in seconds since 1970 as ISO 8601, UTC."""
    return datetime.fromtimestamp(at, timezone.utc).isoformat(timespec="seconds")


def as_text(events: Sequence[Event], nodes: Collection[str]) -> Iterator[str]:
    """Yield the lines of a list of changes; nodes with the same change share one."""
    for at, of_report in groupby(events, key=lambda each: each.at):
        yield moment(iso(at))
        on: dict[str, list[str]] = {}
        for each in of_report:
            on.setdefault(_words(each), []).append(each.node)
        for words, names in [*on.items()][:_MOST]:
            kind, _, rest = words.partition("  ")
            yield f"  {kind:7}  {visible(ranges(names, nodes))}  {rest}".rstrip()
        if (more := len(on) - _MOST) > 0:
            yield f"  {more} more, see --format json"
    if not events:
        yield "no changes"


def _words(event: Event) -> str:
    # Of its logins a node is itself the subject: its name is there already.
    about = f"{event.subject}: " if event.subject not in ("", event.node) else ""
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

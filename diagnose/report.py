"""The answer for people, and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.text import Text

from gpu_node.diagnose.answer import Answer, Candidate
from gpu_node.diagnose.cause import PREFIX, Cause, table
from gpu_node.diagnose.match import Evidence
from gpu_node.drift.engine.registry import RULES
from gpu_node.drift.ranges import gathered
from gpu_node.drift.report.entry import entry
from gpu_node.facts.probe.redaction import redacted
from gpu_node.inventories.escape import visible
from gpu_node.inventories.plurals import counted

if TYPE_CHECKING:
    from gpu_node.drift.report.model import Report

SCHEMA = 1
_SIDES = {"machines": "your machines", "code": "your code", "neither": "a person"}
_SHOWN, _LISTED = 300, 10
# What to do where the lines of a log do not say how the job ended, by verdict.
_NEXT = table("next")


def render(answer: Answer, now: Report | None) -> RenderableType:
    """Return the candidates, or the first failing lines, and what was read."""
    parts: list[RenderableType] = [*_verdict(answer)]
    for number, candidate in enumerate(answer.candidates, 1):
        parts.append(_body(_head(candidate, number), candidate, now))
    parts += [_flight(each.log, each.rank, each.waiting, each.error) for each in answer.flights]
    parts += [Text(visible(f"not read: {each}"), style="bold") for each in answer.size.lost]
    if now is not None:
        parts += [Text(visible(f"no answer from {n}: {why}")) for n, why in now.silent.items()]
    read = f"{counted(answer.size.lines, 'line')} of {counted(answer.logs, 'log')}"
    return Group(*parts, Text(f"read: {read}", style="dim"))


def _verdict(answer: Answer) -> Iterator[Text]:
    """Yield what stands above the candidates, or in place of them."""
    verdict = answer.verdict
    if verdict == "healthy" and answer.ends:
        yield Text("healthy: the job works, and no line is a failure", style="bold green")
    elif verdict in _NEXT:
        yield Text(f"{verdict}: no line is a failure", style="bold yellow")
        for log, step in answer.stops_at.items():
            yield Text(visible(f"  {log}: the last step is {step}"))
        yield from _lines(answer.last, "The last line of each process:")
        yield Text(_NEXT[verdict])
    elif verdict == "not decidable":
        yield Text(
            "not decidable from this log: all its failures follow from another one", "bold yellow"
        )
        yield from _lines(answer.failing)
        yield Text("Look at, in this order:")
        yield from (Text(visible(f"  {n}. {each}")) for n, each in enumerate(answer.look, 1))
    elif verdict == "nothing known":
        is_seen = bool(answer.failing) and not answer.went_on
        why = "no cause of ours has these lines" if is_seen else "not all can be judged, see below"
        yield Text(f"nothing known: {why}", style="bold yellow")
        yield from _lines(answer.failing)
        if is_seen:
            yield Text("Look at the first one, by time and place.")
    elif verdict == "went on":
        yield Text("The job went on after each line that looks like a failure:", style="bold")
        yield from _lines(answer.failing)
        if answer.candidates:
            yield Text("If it failed all the same, this is why:")


def _lines(lines: Sequence[Evidence], title: str = "") -> Iterator[Text]:
    if lines and title:
        yield Text(title)
    yield from (Text(f"  {_words(each)}") for each in lines[:_LISTED])
    if len(lines) > _LISTED:
        yield Text(f"  and {len(lines) - _LISTED} more")


def _head(candidate: Candidate, number: int) -> Text:
    label = "cause" if number == 1 else f"or, {number}"
    style = "bold red" if number == 1 else "bold"
    return Text.assemble(
        (label, style),
        "  ",
        (candidate.cause.id, "bold"),
        f"  {_SIDES[candidate.cause.side]}, confidence {candidate.confidence}",
    )


def _body(title: Text, candidate: Candidate, now: Report | None) -> RenderableType:
    cause = candidate.cause
    rows = [("what", redacted(candidate.says)), ("confirm", cause.confirm), ("do", cause.remedy)]
    head, *others = [(name, visible(text)) for name, text in rows if text]
    lines = [("evidence", _words(each)) for each in candidate.evidence]
    checks = [("rule", visible(text)) for text in _rules(cause, now)]
    return entry(title, [head, *lines, *others, *checks])


def _rules(cause: Cause, now: Report | None) -> Iterator[str]:
    for rule in cause.rules:
        if now is None:
            by = rule in RULES and RULES[rule].judged_by
            yield (
                f"{rule}: judged {by}" if by else f"{rule}: gpu-node drift INVENTORY --only {rule}"
            )
            continue
        found, clear, unknown, noted = now.of_rule(rule)
        says = [f"finding now on {', '.join(found)}"] if found else []
        says += [f"no finding now on {', '.join(clear)}"] if clear else []
        says += [f"note on {name}: {text}" for name, text in noted.items()]
        for why, names in gathered((why, name) for name, why in unknown.items()).items():
            says.append(f"not judged on {', '.join(names)}: {why}")
        yield f"{rule}: {'; '.join(says)}"


def _words(line: Evidence) -> str:
    who = [f"rank {line.rank}"] if line.rank is not None else []
    who += [f"on {line.node}"] if line.node else []
    where = visible(f"{line.log}:{line.number}")
    words = f" ({visible(' '.join(who))})" if who else ""
    return f"{where}{words}: {visible(redacted(line.text).strip(), _SHOWN)}"


def _flight(log: str, rank: int | None, waiting: str, error: str) -> Text:
    who = f"rank {rank}" if rank is not None else log
    words = error or (f"waits for {redacted(waiting)}" if waiting else "waits for no collective")
    return Text(visible(f"flight recorder, {who}: {words}"))


def as_json(answer: Answer, now: Report | None) -> dict[str, Any]:
    """Return the answer as plain data."""
    return {
        "schema": SCHEMA,
        "verdict": answer.verdict,
        "ends": answer.ends,
        "candidates": [_candidate(each, now) for each in answer.candidates],
        "failing": [_evidence(each) for each in answer.failing],
        "look": list(answer.look),
        "stops_at": dict(answer.stops_at),
        "last": [_evidence(each) for each in answer.last[:_LISTED]],
        "flight_recorder": [
            {
                "log": each.log,
                "rank": each.rank,
                "waiting": redacted(each.waiting) or None,
                "sequence": each.sequence,
                "error": each.error or None,
            }
            for each in answer.flights
        ],
        "no_answer": now.silent if now is not None else {},
        "not_read": answer.size.lost,
        "lines": answer.size.lines,
        "logs": answer.logs,
    }


def _candidate(candidate: Candidate, now: Report | None) -> dict[str, Any]:
    cause = candidate.cause
    return {
        "cause": cause.id,
        "says": redacted(candidate.says),
        "side": candidate.cause.side,
        "confidence": candidate.confidence,
        "evidence": [_evidence(each) for each in candidate.evidence],
        "confirm": cause.confirm,
        "remedy": cause.remedy,
        "rules": [_rule(each, now) for each in cause.rules],
    }


def _rule(rule: str, now: Report | None) -> dict[str, Any]:
    of = now.of_rule(rule) if now is not None else None
    found, unknown, noted = (of.found, of.unknown, of.noted) if of else (None, None, None)
    return {"rule": rule, "nodes": found, "noted": noted, "not_judged": unknown}


def _evidence(line: Evidence) -> dict[str, Any]:
    text = redacted(line.text)[:_SHOWN]
    place = {"file": line.log, "line": line.number, "rank": line.rank, "node": line.node}
    return {**place, "time": line.when or None, "text": text}


def explained(cause: Cause) -> RenderableType:
    """Return what `gpu-node explain` prints of a cause."""
    head = Text.assemble((PREFIX + cause.name, "bold"), f"  {cause.level}, {_SIDES[cause.side]}")
    rows = [("what", cause.says), ("confirm", cause.confirm), ("do", cause.remedy)]
    rows += [("rules", ", ".join(cause.rules)), ("source", cause.source)]
    every = dict.fromkeys(pattern.has.strip() for pattern in cause.patterns)
    found = [has for has in every if len(has.split()) > 3] or every  # the long ones say most
    texts = [("" if at else "lines with", f"... {has} ...") for at, has in enumerate(found)]
    rows += texts[:_LISTED]
    return entry(head, [(name, text) for name, text in rows if text])

"""Compares a report with an earlier one: a kept one, or a file that `--format json` wrote."""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, get_args

from gpu_node.drift.engine.finding import Severity
from gpu_node.drift.report.change_words import ANSWER, ANSWERED
from gpu_node.drift.report.changes import ChangedFact, Changes, Earlier, Identity, NotJudged
from gpu_node.drift.report.model import Report
from gpu_node.facts.node import state_of
from gpu_node.facts.probe.bounds import read_json
from gpu_node.history.compare import (
    DEEP,
    MESH,
    Key,
    Known,
    Node,
    OfNode,
    Snapshot,
    bounded,
    difference,
    facts_of,
)
from gpu_node.history.when import iso
from gpu_node.inventories.regular_file import content

MOST_BYTES = 256_000_000
_SEVERITIES = get_args(Severity)

# A node, a fact of it, and the text of that.
FactOf = tuple[str, str, str]


@dataclass(frozen=True)
class Before:
    """An earlier report: `word` as --since has it, its time (ISO 8601, UTC), and its nodes.

    `since` returns the times of the first kept reports since which facts of nodes have their texts,
    and `problem` is the line that was printed of the store.
    """

    word: str
    at: str | None = None
    nodes: Mapping[str, Node] = field(default_factory=dict)
    since: Callable[[Iterable[FactOf]], Mapping[FactOf, int]] = lambda facts: {}
    problem: str = ""


def report_in(file: str) -> Before:
    """Return the report in a file. OSError, or ValueError with the reason, where there is none."""
    try:
        data = read_json(content(Path(file), MOST_BYTES).decode("utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError):
        raise ValueError("it is no JSON") from None
    hosts = data.get("hosts") if isinstance(data, dict) else None
    if not isinstance(hosts, dict) or "schema" not in data:
        raise ValueError("it is no report of gpu-node")
    if data["schema"] != 1:
        raise ValueError("a newer gpu-node wrote it")
    try:
        at = datetime.fromisoformat(data["generated"]).astimezone(timezone.utc)
        nodes = {str(name): _node(host) for name, host in hosts.items()}
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        raise ValueError("a part of the report is missing, or is not what a report has") from None
    read = frozenset(name for name, node in nodes.items() if node.is_read)
    # What it was asked is unknown: what only an option finds is not gone without it.
    asked = frozenset((DEEP, MESH))
    for node in nodes.values():
        for key, known in node.findings.items():
            node.findings[key] = replace(known, nodes=read, asked=asked)
    return Before(file, at.isoformat(timespec="seconds"), nodes)


def _node(host: Mapping[str, Any]) -> Node:
    if host["error"] is not None:
        return Node({ANSWER: str(host["status"])})
    findings = {}
    for each in host["findings"]:
        rule, subject, severity, found, wanted = (
            each[name] for name in ("rule", "subject", "severity", "found", "wanted")
        )
        if severity not in _SEVERITIES:
            raise ValueError(severity)
        findings[Key(bounded(rule), bounded(subject))] = Known(
            severity, bounded(found), bounded(wanted)
        )
    return Node({ANSWER: ANSWERED, **_facts(host["facts"])}, findings)


def _facts(facts: Mapping[str, Any]) -> dict[str, str]:
    """Return the facts of a node; of another version's report there may be none to compare."""
    try:
        return facts_of(state_of(facts))
    except ValueError:
        return {}


def compared(report: Report, now: Snapshot, before: Before) -> Report:
    """Return a report with what changed since an earlier one."""
    is_comparable = before.at is not None and any(
        before.nodes[name].is_known for name in now.nodes if name in before.nodes
    )
    if not is_comparable:
        return report.model_copy(update={"changes": Changes(since=before.word)})
    found = difference(before.nodes, now)
    new = {*found.absent_before, *found.worse}
    facts = [each for each in found.facts if each[0] not in found.added]
    times = before.since([(node, fact, text) for node, fact, _, text in facts])
    changes = Changes(
        since=before.word,
        earlier=before.at,
        added=found.added,
        new=[
            Identity(node=name, rule=each.rule, subject=each.subject)
            for name, host in report.hosts.items()
            for each in host.findings
            if OfNode(name, Key(bounded(each.rule), bounded(each.subject))) in new
        ],
        gone=[Earlier(**_earlier(each, before)) for each in found.gone],
        not_judged=[
            NotJudged(**_earlier(each, before), why=why) for each, why in found.unjudged.items()
        ],
        facts=[
            ChangedFact(
                node=node,
                fact=fact,
                before=was,
                now=text,
                since=iso(times[key]) if (key := (node, fact, text)) in times else None,
            )
            for node, fact, was, text in facts
        ],
    )
    return report.model_copy(update={"changes": changes})


def _earlier(each: OfNode, before: Before) -> dict[str, Any]:
    known = before.nodes[each.node].findings[each.key]
    return {
        "node": each.node,
        **each.key._asdict(),
        "severity": known.severity,
        "found": known.found,
        "wanted": known.wanted,
    }

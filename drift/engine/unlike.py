"""What the rules between nodes report: this node's value, and those of the nodes beside it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from gpu_node.drift.engine.finding import Severity, Who
from gpu_node.drift.engine.nodes import Nodes, Unlike
from gpu_node.drift.engine.rule import Fault
from gpu_node.drift.engine.subject import Subject
from gpu_node.facts.node import NodeState

# How many nodes and values one text lists, and how many characters of a value.
_MOST, _LONGEST = 8, 80
_UNREAD = (
    "a value that cannot be read is never equal to another one",
    "repair what prevents the node from answering, then run the report again",
)


@dataclass(frozen=True)
class Text:
    """What a difference of a fact has of its own: cause, fix and severity are else the rule's."""

    cause: str = ""
    fix: str = ""
    # Where the rule's first severity does not fit.
    severity: Severity | None = None
    who: Who | None = None


def faults(nodes: Nodes, texts: Mapping[str, Text]) -> Iterator[Fault]:
    """Yield a fault for each of these facts in which a node is unlike its peers.

    `texts` has them by name, without the folder of a fact about one environment (torch:FOLDER).
    """
    for each in nodes.unlike:
        if (text := texts.get(each.fact.partition(":")[0])) is not None:
            yield fault(each, each.fact, text)


def fault(unlike: Unlike, subject: Subject | str, text: Text) -> Fault:
    """Return the fault that a node differs from its peers; no deploy repairs it."""
    cause, fix = _UNREAD if unlike.value is None else (text.cause, text.fix)
    return Fault(
        subject=subject,
        found="unreadable" if unlike.value is None else unlike.value,
        wanted=_wanted(unlike),
        cause=cause,
        fix=fix,
        fixable=False,
        severity=text.severity,
        who=text.who,
    )


def unknown(subject: str, state: NodeState, section: str) -> Fault:
    """Return the fault of what a node did not say: unknown is never equal."""
    reasons = {each.section: each.reason for each in state.unreadable}
    return Fault(
        subject=subject,
        found=f"unknown: {reasons.get(section, 'no answer')}",
        wanted="an answer",
        cause="what could not be read never counts as correct",
        fix=f"find out why the server gives no answer ({section}), then run again",
        severity="warning",
    )


def _wanted(unlike: Unlike) -> str:
    """Return the majority's value and its nodes; without a majority all values with their nodes."""
    if unlike.majority is not None:
        return f"{_short(unlike.majority)}, as on {_listed(unlike.values[unlike.majority])}"
    if not unlike.values:
        return "a value that can be compared with those of the other nodes"
    values = [f"{_short(value)} on {_listed(names)}" for value, names in unlike.values.items()]
    return f"the same on {unlike.compared}; found: {_listed(values, '; ')}"


def _listed(words: Sequence[str], between: str = ", ") -> str:
    more = len(words) - _MOST
    return between.join([*words[:_MOST], *([f"and {more} more"] if more > 0 else [])])


def _short(value: str) -> str:
    return value if len(value) <= _LONGEST else f"{value[:_LONGEST]}..."

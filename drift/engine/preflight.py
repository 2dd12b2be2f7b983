"""The pre-flight of a server that is to become a node: a view of what rules find, and of facts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from gpu_node.drift.engine.areas import modules
from gpu_node.drift.engine.check import judge
from gpu_node.drift.engine.finding import Finding
from gpu_node.drift.engine.judgement import Judged
from gpu_node.drift.engine.nodes import Nodes
from gpu_node.drift.engine.rule import Rule
from gpu_node.drift.engine.subject import Thing
from gpu_node.facts.node import NodeState
from gpu_node.facts.probe.bounds import in_words
from gpu_node.inventories.schema import NodeWanted

Verdict = Literal["ok", "warning", "stop"]
# The parts of the table, in their order; within a part the areas have that of the register.
Part = Literal[
    "machine", "time", "packages", "GPUs", "links", "GPU software", "identity", "cluster"
]


@dataclass(frozen=True)
class Row:
    """A line of the table; `wanted`, `why` and `fix` are empty where all is right."""

    subject: str
    found: str
    verdict: Verdict = "ok"
    why: str = ""
    fix: str = ""
    wanted: str = ""


@dataclass(frozen=True)
class Check:
    """A fact of the table, and the rules whose findings stand in its place.

    `shown` is the fact as text; empty: there is a row only where a rule finds something; None: it
    could not be read, as it needs `section`. `about`: only findings about such a subject count.
    `needed`: what is unknown stops. An error stops, but for one that is mended when the server is a
    node (`mended`).
    """

    subject: str
    shown: str | None = ""
    rules: tuple[Rule, ...] = ()
    section: str = ""
    about: str = ""
    needed: bool = False
    mended: bool = False


@dataclass(frozen=True)
class Checked:
    """What an area adds to the table: `CHECKED` in drift/AREA/checked.py.

    What its checks and their rules read is asked for by the beginnings of sections: of the server
    (`of_server`), and of the nodes (`of_nodes`).
    """

    parts: Mapping[Part, Callable[[NodeState, NodeWanted, Nodes], Iterator[Check]]]
    of_server: tuple[str, ...]
    of_nodes: tuple[str, ...] = ()


def rows(
    state: NodeState, wanted: NodeWanted, nodes: Nodes, silent: Mapping[str, str]
) -> list[Row]:
    """Return the rows about a server that is to become the node `nodes.name`.

    `wanted` is what the inventory would want of it; `silent` has the nodes that gave no answer, and
    why. A rule that the inventory turns off counts here: an option disarms no guard.
    """
    judged = judge({nodes.name: Judged(state, wanted, nodes)})
    findings = [*judged.findings[nodes.name], *judged.muted.get(nodes.name, ())]
    reasons = {each.section: each.reason for each in state.unreadable}
    broken = dict.fromkeys(judged.blamed - {nodes.name}, "its answer is not understood")
    unasked = [_unasked(name, why) for name, why in {**silent, **broken}.items()]
    made: list[Row] = []
    try:
        for part in get_args(Part):
            made += unasked if part == "identity" else ()
            for area in checked():
                for check in area.parts[part](state, wanted, nodes) if part in area.parts else ():
                    made += _rows(check, findings, reasons)
    except Exception as error:  # of whatever class: an answer of the server's made it
        return [_unknown("answer", in_words(error), "the probe", "stop")]
    return made


def checked() -> list[Checked]:
    """Return what each area adds to the table, in the areas' order."""
    return [module.CHECKED for module in modules("checked")]


def _unasked(name: str, why: str) -> Row:
    why = f"{why}: cannot check whether it is the same machine, or connects"
    return Row(name, "not asked", "warning", why, "run again when it answers")


def _rows(check: Check, findings: list[Finding], reasons: Mapping[str, str]) -> Iterator[Row]:
    """Yield what the rules of a check find, or else the fact."""
    ids = {rule.id for rule in check.rules}
    own = [
        finding
        for finding in findings
        if finding.rule in ids and check.about in ("", finding.subject)
    ]
    made = [_of(check, each) for each in own]
    # A rule that an answer of the server's breaks is unreadable, with its own id.
    lost = [
        finding
        for finding in findings
        if finding.rule.endswith(".unreadable") and finding.subject in ids
    ]
    made += [_unknown(check.subject, each.found, each.subject, "stop") for each in lost]
    yield from made
    if check.shown is None and not any(row.verdict == "stop" for row in made):
        reason = reasons.get(check.section, "no answer")
        yield _unknown(check.subject, reason, check.section, "stop" if check.needed else "warning")
    elif check.shown and not made:
        yield Row(check.subject, check.shown)


def _of(check: Check, finding: Finding) -> Row:
    """Return the row of a finding; what the deploy repairs is right."""
    is_named = isinstance(finding.about, Thing) or finding.subject in check.subject
    shown = finding.found if is_named else f"{finding.subject}: {finding.found}"
    # It may be about a part of what is checked: a node already: a100-01.
    subject = finding.subject if finding.subject.startswith(check.subject) else check.subject
    if finding.fixable:
        return Row(subject, f"{shown}; the deploy repairs it: {finding.fix}")
    stops = finding.severity == "error" and not check.mended
    verdict: Verdict = "stop" if stops else "warning"
    return Row(subject, shown, verdict, finding.cause, finding.fix, finding.wanted)


def _unknown(subject: str, reason: str, section: str, verdict: Verdict) -> Row:
    why = "what could not be read never counts as correct"
    fix = f"find out why the server gives no answer ({section}), then run again"
    return Row(subject, f"unknown: {reason}", verdict, why, fix, "an answer")

"""The rules over several nodes, each in its own try: what a node says ends no other's judgement."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import TypeVar

from gpu_node.drift.engine.differences import Compared, drifting, unlikes
from gpu_node.drift.engine.finding import Finding
from gpu_node.drift.engine.neighbours import Among
from gpu_node.drift.engine.rule import is_on
from gpu_node.drift.engine.rules import RULES, Rule
from gpu_node.drift.engine.shown_facts import FACTS
from gpu_node.drift.engine.subject import Thing
from gpu_node.facts.node import NodeState
from gpu_node.facts.probe.bounds import in_words
from gpu_node.facts.probe.guard import culprits
from gpu_node.inventories.schema import NodeWanted

# More of one rule on one node, or of all, is no list that a person reads.
_MOST_FINDINGS, _MOST_OF_ALL = 1000, 3000
_AREAS = tuple(NodeState.model_fields)
_SORTED = sorted(RULES.values(), key=lambda rule: _AREAS.index(rule.area))
_BY_AREA = [rule for rule in _SORTED if not rule.compares]
_COMPARING = [rule for rule in _SORTED if rule.compares]

T = TypeVar("T")


@dataclass(frozen=True)
class Judged:
    """What is judged of a node: what was found, what is wanted, and who is around it.

    Of `among` the states are those of the nodes that are judged together, and maybe of others.
    """

    found: NodeState
    wanted: NodeWanted
    among: Among

    def beside(self, names: Iterable[str]) -> Judged:
        """Return it with the states of some nodes alone."""
        names = set(names)
        around = {name: each for name, each in self.among.found.items() if name in names}
        return replace(self, among=replace(self.among, found=around, made={}))


@dataclass(frozen=True)
class Judgement:
    """The findings of each node, and the nodes that a rule between nodes was judged without."""

    findings: dict[str, list[Finding]]
    blamed: frozenset[str] = frozenset()
    # The facts of the report in which nodes differ and may not: a finding is about each of them.
    drifting: frozenset[str] = frozenset()
    # What rules find that the inventory turns off: no finding of the report, but a guard of a step
    # still stops by it.
    muted: Mapping[str, list[Finding]] = field(default_factory=dict)


def by_rules(nodes: Mapping[str, Judged]) -> Judgement:
    """Return what each rule finds on each node, but for those of `by_comparing`.

    A rule that a node's own answer breaks is a finding about that node: `AREA.unreadable`. One
    between nodes is judged without those that break it, and the finding is about these.
    """
    judged = _by(_BY_AREA, nodes, {name: [] for name in nodes})
    off = {name: node for name, node in nodes.items() if node.wanted.checks}
    muted = _by(_BY_AREA, off, {name: [] for name in off}, on=False)
    return replace(judged, muted=muted.findings)


def by_comparing(
    nodes: Mapping[str, Judged],
    unread: Mapping[str, list[Finding]],
    by_rules: Mapping[str, list[Finding]],
) -> Judgement:
    """Return all findings: those before, and beside those of rules what nodes differ in.

    `unread` are the findings about values that could not be read, `by_rules` those of other rules.
    """
    unlike = unlikes(
        {
            name: Compared(node.found, node.wanted, (*unread[name], *by_rules[name]))
            for name, node in nodes.items()
        }
    )
    compared = {
        name: replace(node, among=replace(node.among, unlike=unlike[name]))
        for name, node in nodes.items()
    }
    judged = _by(_COMPARING, compared, {name: list(each) for name, each in by_rules.items()})
    placed = {
        name: [*unread[name], *_placed(by_rules[name], each[len(by_rules[name]) :])]
        for name, each in judged.findings.items()
    }
    return Judgement(placed, judged.blamed, drifting(unlike))


def _placed(findings: Iterable[Finding], added: Iterable[Finding]) -> list[Finding]:
    """Return findings with each of `added` behind the others of its area."""
    placed = list(findings)
    for each in added:
        area = _AREAS.index(each.step)
        before = [at for at, known in enumerate(placed, 1) if _AREAS.index(known.step) <= area]
        placed.insert(max(before, default=0), each)
    return placed


def _by(
    rules: Iterable[Rule],
    nodes: Mapping[str, Judged],
    found: dict[str, list[Finding]],
    on: bool = True,
) -> Judgement:
    """Add to what was found what these rules find; `on=False`: those that are turned off."""
    blamed: set[str] = set()
    for rule in rules:
        asked = {
            name: node
            for name, node in nodes.items()
            if rule.is_judged(node.wanted) and is_on(rule.id, node.wanted) is on
        }
        judged = _between(rule, asked) if rule.between else Judgement(_own(rule, asked))
        blamed |= judged.blamed
        for name, findings in judged.findings.items():
            if name in found:
                found[name] += findings if len(found[name]) < _MOST_OF_ALL else _too_many(rule)
    return Judgement(found, frozenset(blamed))


def _too_many(rule: Rule) -> list[Finding]:
    return [unread(rule.area, rule.id, f"not judged: more than {_MOST_OF_ALL} findings already")]


def unread(area: str, subject: str, reason: str) -> Finding:
    """Return the finding that an answer cannot be judged: unknown is never equal."""
    return Finding(
        rule=f"{area}.unreadable",
        severity="error",
        subject=subject,
        about=Thing(subject),
        found=reason,
        wanted="an answer that can be judged",
        cause="what cannot be judged never counts as correct; the other rules and the other "
        "nodes are judged without it",
        fix="look at the node's other facts: gpu-node drift INVENTORY --limit NODE --format json",
        fixable=False,
        step=area,
    )


def shown(found: NodeState) -> Iterator[Finding]:
    """Yield a finding for each fact of the report that cannot be made of a node's answer."""
    for fact in FACTS:
        if reason := fact.broken(found):
            yield unread(fact.area, fact.name, f"not understood: {reason}")
        elif reason := fact.unread(found):
            yield unread(fact.area, fact.name, reason)


def attempt(work: Callable[[], T], area: str, subject: str) -> T | Finding:
    """Return what `work` returns, or the finding that says why it could not."""
    try:
        return work()
    except Exception as error:  # of whatever class: an answer of a node's made it
        return unread(area, subject, f"not understood: {in_words(error)}")


def _own(rule: Rule, nodes: Mapping[str, Judged]) -> dict[str, list[Finding]]:
    found = {}
    for name, node in nodes.items():
        result = attempt(partial(_findings, rule, node), rule.area, rule.id)
        found[name] = [result] if isinstance(result, Finding) else result
    return found


def _between(rule: Rule, nodes: Mapping[str, Judged]) -> Judgement:
    try:
        return Judgement({name: _findings(rule, node) for name, node in nodes.items()})
    except Exception:
        blamed = _blamed(rule, nodes)
    found = {
        name: [unread(rule.area, rule.id, f"not understood: {reason}")]
        for name, reason in blamed.items()
    }
    left = {name for node in nodes.values() for name in node.among.found} - blamed.keys()
    rest = {name: node.beside(left) for name, node in nodes.items() if name not in blamed}
    return Judgement(found | _own(rule, rest), frozenset(blamed))


def _blamed(rule: Rule, nodes: Mapping[str, Judged]) -> dict[str, str]:
    """Return the nodes that break a rule, each with the reason."""

    def judge(names: tuple[str, ...]) -> None:
        for name in names:
            if name in nodes:
                _findings(rule, nodes[name].beside(names))

    around = [name for node in nodes.values() for name in node.among.found]
    return culprits(judge, dict.fromkeys([*nodes, *around]))


def _findings(rule: Rule, node: Judged) -> list[Finding]:
    findings = rule.findings(node.found, node.wanted, node.among)
    found = list(islice(findings, _MOST_FINDINGS + 1))
    if len(found) > _MOST_FINDINGS:
        raise ValueError(f"more than {_MOST_FINDINGS} findings of {rule.id}")
    return found

"""The rules over several nodes, each in its own try: what a node says ends no other's judgement."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import TypeVar

from gpu_node.drift.engine.differences import Compared, drifting, unlikes
from gpu_node.drift.engine.finding import Finding
from gpu_node.drift.engine.nodes import Nodes
from gpu_node.drift.engine.registry import RULES, Rule
from gpu_node.drift.engine.rule import is_of
from gpu_node.drift.engine.shown_facts import FACTS
from gpu_node.drift.engine.subject import Thing
from gpu_node.drift.engine.switches import is_on
from gpu_node.facts.node import NodeState
from gpu_node.facts.probe.bounds import breaking, in_words
from gpu_node.inventories.plurals import counted
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

    Of `nodes` the states are those of the nodes that are judged together, and maybe of others.
    """

    state: NodeState
    wanted: NodeWanted
    nodes: Nodes

    def is_on(self, rule_id: str) -> bool:
        """Whether the inventory leaves a rule on for the node."""
        return is_on(rule_id, self.wanted, self.nodes.day)


@dataclass(frozen=True)
class Judgement:
    """The findings of each node, and the nodes that a rule between nodes was judged without."""

    findings: dict[str, list[Finding]]
    blamed: frozenset[str] = frozenset()
    # The facts of the report in which nodes differ and may not: a finding is about each of them.
    drifting: frozenset[str] = frozenset()
    # What rules find that the inventory turns off: the report counts it beside its findings, no
    # step repairs it, and a guard of a step still stops by it.
    muted: Mapping[str, list[Finding]] = field(default_factory=dict)


def by_rules(nodes: Mapping[str, Judged]) -> Judgement:
    """Return what each rule finds on each node, but for those of `by_comparing`.

    A rule that a node's own answer breaks is a finding about that node: `AREA.unreadable`. One
    between nodes is judged without the node that breaks it, and the finding is about that one; if
    it is not one alone, the finding is about all nodes.
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
            name: Compared(
                node.state, node.wanted, (*unread[name], *by_rules[name]), node.nodes.day
            )
            for name, node in nodes.items()
        }
    )
    compared = {
        name: replace(node, nodes=replace(node.nodes, unlike=unlike[name]))
        for name, node in nodes.items()
    }
    judged = _by(_COMPARING, compared, {name: list(each) for name, each in by_rules.items()})
    placed = {
        name: [*unread[name], *_placed(by_rules[name], each[len(by_rules[name]) :])]
        for name, each in judged.findings.items()
    }
    return Judgement(placed, judged.blamed, drifting(unlike))


def off_by_comparing(
    nodes: Mapping[str, Judged],
    unread: Mapping[str, list[Finding]],
    by_rules: Mapping[str, list[Finding]],
) -> dict[str, list[Finding]]:
    """Return what the nodes differ in whose comparison the inventory turns off, as if it were on.

    The other node of such a difference has no finding: it is compared with none.
    """
    off = {
        name: {rule.id for rule in _COMPARING if not node.is_on(rule.id)}
        for name, node in nodes.items()
    }
    if not any(off.values()):
        return {}
    on = {
        name: replace(node, wanted=node.wanted.model_copy(update={"checks": None}))
        for name, node in nodes.items()
    }
    judged = by_comparing(on, unread, by_rules).findings
    return {name: [each for each in judged[name] if each.rule in off[name]] for name in nodes}


def in_order(findings: Iterable[Finding]) -> list[Finding]:
    """Return findings area by area, in the order of a report."""
    return sorted(findings, key=lambda each: _AREAS.index(each.area))


def _placed(findings: Iterable[Finding], added: Iterable[Finding]) -> list[Finding]:
    """Return findings with each of `added` behind the others of its area."""
    placed = list(findings)
    for each in added:
        area = _AREAS.index(each.area)
        before = [at for at, known in enumerate(placed, 1) if _AREAS.index(known.area) <= area]
        placed.insert(max(before, default=0), each)
    return placed


def _by(
    rules: Iterable[Rule],
    nodes: Mapping[str, Judged],
    so_far: dict[str, list[Finding]],
    on: bool = True,
) -> Judgement:
    """Add to the findings so far what these rules find; `on=False`: those that are turned off."""
    blamed: set[str] = set()
    for rule in rules:
        asked = {
            name: node
            for name, node in nodes.items()
            if rule.is_judged(node.wanted) and node.is_on(rule.id) is on
        }
        judged = _between(rule, asked) if rule.between else Judgement(_own(rule, asked))
        blamed |= judged.blamed
        for name, findings in judged.findings.items():
            if name in so_far:
                is_full = len(so_far[name]) >= _MOST_OF_ALL
                so_far[name] += _too_many(rule, findings) if is_full and findings else findings
    return Judgement(so_far, frozenset(blamed))


def _too_many(rule: Rule, findings: list[Finding]) -> list[Finding]:
    left_out = f"{counted(len(findings), 'finding')} left out: more than {_MOST_OF_ALL} already"
    return [unread(rule.area, rule.id, left_out)]


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


def shown(state: NodeState, wanted: NodeWanted) -> Iterator[Finding]:
    """Yield a finding for each fact of the report that cannot be made of a node's answer."""
    for fact in (each for each in FACTS if is_of(wanted, each.area)):
        if reason := fact.broken(state):
            yield unread(fact.area, fact.name, f"not understood: {reason}")
        elif reason := fact.unread(state):
            yield unread(fact.area, fact.name, reason)


def attempt(work: Callable[[], T], area: str, subject: str) -> T | Finding:
    """Return what `work` returns, or the finding that says why it could not."""
    try:
        return work()
    except Exception as error:  # of whatever class: an answer of a node's made it
        return unread(area, subject, f"not understood: {in_words(error)}")


def _own(rule: Rule, nodes: Mapping[str, Judged]) -> dict[str, list[Finding]]:
    findings = {}
    for name, node in nodes.items():
        result = attempt(partial(_findings, rule, node), rule.area, rule.id)
        findings[name] = [result] if isinstance(result, Finding) else result
    return findings


def _between(rule: Rule, nodes: Mapping[str, Judged]) -> Judgement:
    try:
        return Judgement({name: _findings(rule, node) for name, node in nodes.items()})
    except Exception:
        others = [name for node in nodes.values() for name in node.nodes.states]
    names = tuple(dict.fromkeys([*nodes, *others]))

    def judge(some: tuple[str, ...]) -> None:
        for node in _alone(nodes, set(some)).values():
            _findings(rule, node)

    blamed = breaking(judge, names)
    findings = {
        name: [unread(rule.area, rule.id, f"not understood: {reason}")]
        for name, reason in blamed.items()
    }
    rest = _alone(nodes, {*names} - blamed.keys())
    return Judgement(findings | _own(rule, rest), frozenset(blamed))


def _alone(nodes: Mapping[str, Judged], names: Collection[str]) -> dict[str, Judged]:
    """Return the nodes of these names, with the states of these alone around them."""
    made: dict[object, object] = {}
    shared: dict[int, dict[str, NodeState]] = {}
    alone = {}
    for name in (name for name in nodes if name in names):
        known = nodes[name].nodes.states
        if id(known) not in shared:  # nodes that are judged together share one
            shared[id(known)] = {each: state for each, state in known.items() if each in names}
        others = replace(nodes[name].nodes, states=shared[id(known)], made=made)
        alone[name] = replace(nodes[name], nodes=others)
    return alone


def _findings(rule: Rule, node: Judged) -> list[Finding]:
    findings = rule.findings(node.state, node.wanted, node.nodes)
    listed = list(islice(findings, _MOST_FINDINGS + 1))
    if len(listed) > _MOST_FINDINGS:
        raise ValueError(f"more than {_MOST_FINDINGS} findings of {rule.id}")
    return listed

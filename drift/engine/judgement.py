"""The rules over several nodes, each in its own try: what a node says ends no other's judgement."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import TypeVar

from gpu_node.drift.engine.compare import Unlikes
from gpu_node.drift.engine.finding import Finding
from gpu_node.drift.engine.nodes import Judged
from gpu_node.drift.engine.registry import RULES, Rule
from gpu_node.drift.engine.rule import TURNED_OFF, is_of
from gpu_node.drift.engine.shown_facts import FACTS
from gpu_node.drift.engine.subject import Thing
from gpu_node.facts.node import NodeState
from gpu_node.facts.probe.bounds import breaking, in_words
from gpu_node.inventories.plurals import counted
from gpu_node.inventories.wanted import NodeWanted

# More of one rule on one node, or of all, is no list that a person reads.
_MOST_FINDINGS, _MOST_OF_ALL = 1000, 3000
# What a person does about an answer that cannot be judged, where nothing better is known.
LOOK = "look at the node's other facts: gpu-node drift INVENTORY --limit NODE --format json"
_AREAS = tuple(NodeState.model_fields)
_SORTED = sorted(RULES.values(), key=lambda rule: _AREAS.index(rule.area))
_BY_AREA = [rule for rule in _SORTED if not rule.compares]
_COMPARING = [rule for rule in _SORTED if rule.compares]

T = TypeVar("T")


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
    none: dict[str, list[Finding]] = {name: [] for name in nodes}
    return _by(_BY_AREA, nodes, Judgement(none, muted=none))


def by_comparing(nodes: Mapping[str, Judged], unlike: Unlikes, before: Judgement) -> Judgement:
    """Return what was found before, and beside it that of rules what nodes differ in."""
    compared = {
        name: replace(node, nodes=replace(node.nodes, unlike=unlike[name]))
        for name, node in nodes.items()
    }
    return _by(_COMPARING, compared, before)


def in_order(findings: Iterable[Finding]) -> list[Finding]:
    """Return findings area by area, in the order of a report."""
    return sorted(findings, key=lambda each: _AREAS.index(each.area))


def _by(rules: Iterable[Rule], nodes: Mapping[str, Judged], before: Judgement) -> Judgement:
    """Add what these rules find to what was found before; what is turned off is muted."""
    found = {name: [*each] for name, each in before.findings.items()}
    muted = {name: [*each] for name, each in before.muted.items()}
    blamed = set(before.blamed)
    for rule in rules:
        why = {name: rule.why_not_judged(node.wanted, node.nodes) for name, node in nodes.items()}
        on = {name: node for name, node in nodes.items() if not why[name]}
        off = {name: node for name, node in nodes.items() if why[name] == TURNED_OFF}
        judged = _between(rule, on) if rule.has_peers else Judgement(_own(rule, on))
        blamed |= judged.blamed
        for so_far, made in ((found, judged.findings), (muted, _own(rule, off))):
            for name, more in ((name, made[name]) for name in so_far if name in made):
                is_full = len(so_far[name]) >= _MOST_OF_ALL
                so_far[name] += _too_many(rule, more) if is_full and more else more
    return Judgement(found, frozenset(blamed), muted=muted)


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
        fix=LOOK,
        fixable=False,
        step=area,
    )


def shown(state: NodeState, wanted: NodeWanted) -> Iterator[Finding]:
    """Yield a finding for each fact of the report that cannot be made of a node's answer."""
    for fact in (each for each in FACTS if is_of(wanted, each.area)):
        if reason := fact.unread(state):
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

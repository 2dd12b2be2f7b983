"""Node against node: each fact's class says where nodes of one job may differ."""

from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import cached_property

from pydantic import BaseModel, ConfigDict, Field

from gpu_node.drift.engine.fact import Class, Fact, marks_of
from gpu_node.drift.engine.finding import Finding
from gpu_node.drift.engine.nodes import Unlike
from gpu_node.drift.engine.rule import is_of
from gpu_node.drift.engine.shown_facts import FACTS, facts_of
from gpu_node.drift.engine.switches import is_on
from gpu_node.facts.node import NodeState
from gpu_node.inventories.schema import NodeWanted

UNREADABLE = "unreadable"


class Difference(BaseModel):
    """A fact whose values differ; `drift` says whether a rule between nodes has a finding."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    fact: str
    comparison: Class = Field(alias="class")
    values: dict[str, str]
    drift: bool

    @property
    def is_known(self) -> bool:
        """Whether every value could be read."""
        return UNREADABLE not in self.values.values()

    @property
    def is_everywhere(self) -> bool:
        """Whether all nodes must agree on it, whatever their GPU model."""
        return self.comparison == "must-equal"


@dataclass(frozen=True)
class Compared:
    """A node that is compared with others: its state, its wanted state, its findings, and when."""

    state: NodeState
    wanted: NodeWanted
    findings: Sequence[Finding] = ()
    day: date = field(default_factory=date.today)

    @cached_property
    def marks(self) -> frozenset[str]:
        """What its findings mark, but for those of severity info (`marks_of`)."""
        return marks_of(finding for finding in self.findings if finding.severity != "info")

    @property
    def model(self) -> str:
        """The GPU model that the inventory names; empty where it names none."""
        return self.wanted.gpu.model if self.wanted.gpu else ""


Unlikes = Mapping[str, tuple[Unlike, ...]]


def differences(
    nodes: Mapping[str, NodeState],
    drifting: Container[str],
    wanted: Mapping[str, NodeWanted] | None = None,
    day: date | None = None,
) -> list[Difference]:
    """Return the facts that differ between `nodes`; `drifting` are those that may not.

    A node whose inventory (`wanted`) turns the comparison off is left out of it, that of `day` (by
    default today).
    """
    differing = []
    expected, today = wanted or {}, day or date.today()
    for fact in (*FACTS, *facts_of(nodes.values())):
        read = {
            name: fact.value(node)
            for name, node in nodes.items()
            if fact.is_compared(node) and _is_on(fact, expected.get(name), today)
        }
        if len(read) > 1 and (None in read.values() or len(set(read.values())) > 1):
            values = {name: UNREADABLE if value is None else value for name, value in read.items()}
            data = {"fact": fact.name, "class": fact.comparison, "values": values}
            differing.append(Difference.model_validate({**data, "drift": fact.name in drifting}))
    return differing


def _is_on(fact: Fact, wanted: NodeWanted | None, day: date) -> bool:
    if wanted is None:
        return True
    return is_on(fact.rule.id if fact.rule else fact.area, wanted, day) and is_of(wanted, fact.area)


def unlikes(nodes: Mapping[str, Compared]) -> Unlikes:
    """Return for each node the facts in which it differs from nodes that it must agree with.

    A value that another finding explains is left out: there is one finding for one cause. So is a
    fact that every inventory entry manages: a value that is right by its own entry is no drift,
    even where it is higher than on another node.
    """
    by_node: dict[str, list[Unlike]] = {name: [] for name in nodes}
    for fact in (*FACTS, *facts_of(node.state for node in nodes.values())):
        if fact.comparison == "per-host":
            continue
        for compared, group in _groups(fact, nodes):
            for name, unlike in _unlike(fact, nodes, group, compared, by_node).items():
                by_node[name].append(unlike)
    return {name: tuple(each) for name, each in by_node.items()}


def drifting(by_node: Unlikes) -> frozenset[str]:
    """Return the facts of which a rule between nodes has a finding.

    A difference of torch is one of the NCCL that it brings: one finding is about both.
    """
    unlike = {each.fact for several in by_node.values() for each in several}
    return frozenset(unlike | {fact.name for fact in FACTS if fact.follows in unlike})


def _groups(fact: Fact, nodes: Mapping[str, Compared]) -> Iterator[tuple[str, list[str]]]:
    """Yield the nodes that must agree on a fact, grouped, with words for each group."""
    groups: dict[str, list[str]] = defaultdict(list)
    for name, node in nodes.items():
        if fact.is_compared(node.state) and _is_on(fact, node.wanted, node.day):
            groups[node.model if fact.comparison == "per-model" else ""].append(name)
    for model, group in groups.items():
        if model:
            compared = f"all nodes of GPU model {model}"
        elif len(groups) > 1:
            compared = "all nodes without a GPU model in the inventory"
        else:
            compared = "all nodes"
        if len(group) > 1:
            yield compared, group


def _unlike(
    fact: Fact,
    nodes: Mapping[str, Compared],
    group: Iterable[str],
    compared: str,
    before: Mapping[str, Sequence[Unlike]],
) -> dict[str, Unlike]:
    """Return what differs on which nodes of a group that must agree."""
    members = list(group)
    read = {name: fact.value(nodes[name].state) for name in members}
    if None not in read.values() and len(set(read.values())) == 1:
        return {}
    read = {
        name: value
        for name, value in read.items()
        if not _is_explained(fact, nodes[name], before[name], value)
    }
    values: dict[str, list[str]] = defaultdict(list)
    for name, value in read.items():
        if value is not None:
            values[value].append(name)
    settled = all(fact.is_managed(nodes[name].wanted) for name in members)
    apart = len(values) > 1 and not settled
    known = {value: tuple(names) for value, names in values.items()}
    majority = _majority(known)
    return {
        name: Unlike(fact.name, value, known, majority, compared, fact.package)
        for name, value in read.items()
        if value is None or (apart and value != majority)
    }


def _majority(values: Mapping[str, tuple[str, ...]]) -> str | None:
    """Return the value that more than half of the nodes have."""
    counts = Counter({value: len(names) for value, names in values.items()})
    most = counts.most_common(1)
    return most[0][0] if most and most[0][1] * 2 > counts.total() else None


def _is_explained(fact: Fact, node: Compared, before: Iterable[Unlike], value: str | None) -> bool:
    """Whether another finding about the node says why it has this value, or none."""
    if fact.follows and any(each.fact == fact.follows for each in before):
        return True
    explained_by = (rule.id for rule in fact.explained_by)
    explaining = {*fact.marks, *explained_by}
    if value is None:
        explaining.add(f"{fact.area}.unreadable")
    return not node.marks.isdisjoint(explaining) or fact.is_unmet(node.state, node.wanted)

"""Node against node: the facts in which nodes differ, and a fault for each that may not."""

from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

from pydantic import BaseModel, ConfigDict, Field

from gpu_node.drift.engine.fact import Class, Fact, marks_of
from gpu_node.drift.engine.finding import Finding
from gpu_node.drift.engine.nodes import Judged, Unlike
from gpu_node.drift.engine.rows import part_of
from gpu_node.drift.engine.rule import At, Fault, is_of
from gpu_node.drift.engine.shown_facts import FACTS, facts_of
from gpu_node.drift.ranges import gathered
from gpu_node.inventories.plurals import few

UNREADABLE = "unreadable"
# How many nodes and values one text lists, and how many characters of a value.
_MOST, _LONGEST = 8, 80
_UNREAD = (
    "a value that cannot be read is never equal to another one",
    "repair what prevents the node from answering, then run the report again",
)


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


Unlikes = Mapping[str, tuple[Unlike, ...]]


def differences(nodes: Mapping[str, Judged], drifting: Container[str]) -> list[Difference]:
    """Return the facts that differ between `nodes`; `drifting` are those that may not.

    A node whose inventory turns the comparison off is left out of it.
    """
    differing = []
    for fact in (*FACTS, *facts_of(node.state for node in nodes.values())):
        read = {name: fact.value(node.state) for name, node in _compared(fact, nodes).items()}
        if len(read) > 1 and (None in read.values() or len(set(read.values())) > 1):
            values = {name: UNREADABLE if value is None else value for name, value in read.items()}
            data = {"fact": fact.name, "class": fact.comparison, "values": values}
            differing.append(Difference.model_validate({**data, "drift": fact.name in drifting}))
    return differing


def _compared(fact: Fact, nodes: Mapping[str, Judged]) -> dict[str, Judged]:
    """Return the nodes that have a fact, and whose inventory does not turn its comparison off."""
    return {
        name: node
        for name, node in nodes.items()
        if fact.is_compared(node.state)
        and node.is_on(fact.row.rule or fact.area)
        and is_of(node.wanted, fact.area)
    }


def unlikes(nodes: Mapping[str, Judged], findings: Mapping[str, Iterable[Finding]]) -> Unlikes:
    """Return for each node the facts in which it differs from nodes that it must agree with.

    A value that another of the `findings` explains is left out: there is one finding for one cause.
    So is a fact that every inventory entry manages: a value that is right by its own entry is no
    drift, even where it is higher than on another node.
    """
    marks = {
        name: marks_of(each for each in of_node if each.severity != "info")
        for name, of_node in findings.items()
    }
    by_node: dict[str, list[Unlike]] = {name: [] for name in nodes}
    for fact in (*FACTS, *facts_of(node.state for node in nodes.values())):
        for compared, group in _groups(fact, nodes) if fact.row.same else ():
            read = {name: fact.value(node.state) for name, node in group.items()}
            if None not in read.values() and len(set(read.values())) == 1:
                continue
            left = {
                name: value
                for name, value in read.items()
                if not _is_explained(fact, group[name], marks[name], by_node[name], value)
            }
            settled = all(fact.is_managed(node.wanted) for node in group.values())
            for name, unlike in _unlike(fact, left, compared, settled):
                by_node[name].append(unlike)
    return {name: tuple(each) for name, each in by_node.items()}


def drifting(by_node: Unlikes) -> frozenset[str]:
    """Return the facts of which a rule between nodes has a finding.

    A difference of torch is one of the NCCL that it brings: one finding is about both.
    """
    unlike = {each.fact.name for several in by_node.values() for each in several}
    return frozenset(unlike | {fact.name for fact in FACTS if fact.row.follows in unlike})


def _groups(fact: Fact, nodes: Mapping[str, Judged]) -> Iterator[tuple[str, Mapping[str, Judged]]]:
    """Yield the nodes that must agree on a fact, grouped, with words for each group."""
    groups: dict[object, dict[str, Judged]] = defaultdict(dict)
    for name, node in _compared(fact, nodes).items():
        per_model = fact.row.same == "per-model"
        groups[part_of(node.wanted, "gpu.model") if per_model else None][name] = node
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
    fact: Fact, read: Mapping[str, str | None], compared: str, settled: bool
) -> Iterator[tuple[str, Unlike]]:
    """Yield the nodes that differ, of those of a group that must agree, and what they differ in."""
    names = gathered((value, name) for name, value in read.items() if value is not None)
    values = {value: tuple(having) for value, having in names.items()}
    majority = _majority(values)
    for name, value in read.items():
        if value is None or (len(values) > 1 and not settled and value != majority):
            yield name, Unlike(fact, value, values, majority, compared)


def _majority(values: Mapping[str, tuple[str, ...]]) -> str | None:
    """Return the value that more than half of the nodes have."""
    half = sum(map(len, values.values())) / 2
    return next((value for value, names in values.items() if len(names) > half), None)


def _is_explained(
    fact: Fact,
    node: Judged,
    marks: frozenset[str],
    before: Iterable[Unlike],
    value: str | None,
) -> bool:
    """Whether another finding about the node says why it has this value, or none."""
    row = fact.row
    if row.follows and any(each.fact.name == row.follows for each in before):
        return True
    explaining = {*row.marked_by, *row.explained_by}
    if value is None:
        explaining.add(f"{fact.area}.unreadable")
    return not marks.isdisjoint(explaining) or fact.is_unmet(node.state, node.wanted)


def faults(rule: str, at: At) -> Iterator[Fault]:
    """Yield a fault for each fact of a rule in which a node is unlike its peers."""
    yield from (fault(each) for each in at.nodes.unlike if each.fact.row.rule == rule)


def fault(unlike: Unlike) -> Fault:
    """Return the fault that a node differs from its peers; no deploy repairs it."""
    row, value = unlike.fact.row, unlike.value
    cause, fix = _UNREAD if value is None else (row.why, row.manual)
    return Fault(
        subject=unlike.fact.about or unlike.fact.name,
        found=UNREADABLE if value is None else value,
        wanted=_wanted(unlike),
        cause=cause,
        fix=fix,
        fixable=False,
        severity=row.severity,
        who=row.who,
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
    return between.join(few(words, _MOST, "and {} more"))


def _short(value: str) -> str:
    return value if len(value) <= _LONGEST else f"{value[:_LONGEST]}..."

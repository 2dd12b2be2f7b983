"""Judging: whatever one node answers, the findings of the others stay as they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import pytest

from gpu_node.drift.engine import judgement
from gpu_node.drift.engine.check import check, judge
from gpu_node.drift.engine.finding import Finding
from gpu_node.drift.engine.nodes import Judged, Nodes
from gpu_node.drift.engine.rule import At, Fault, Rule
from gpu_node.drift.engine.shown_facts import FACTS
from gpu_node.facts.node import NodeState
from tests.drift import reports, states
from tests.drift.stub import stub

HOSTILE = "hostile-kernel"


def _hostile() -> NodeState:
    found = states.state()
    toolchain = found.toolchain.model_copy(update={"kernel": HOSTILE})
    return found.model_copy(update={"toolchain": toolchain})


def _is_hostile(state: NodeState) -> bool:
    return state.toolchain.kernel == HOSTILE


def _judged(nodes: Mapping[str, NodeState]) -> dict[str, list[Finding]]:
    return judge(
        {
            name: Judged(found, states.wanted(), Nodes(name, (), dict(nodes)))
            for name, found in nodes.items()
        }
    ).findings


def _own(at: At) -> Iterator[Fault]:
    """A rule over one node that an answer may break."""
    if _is_hostile(at.node):
        raise OverflowError("date value out of range")
    yield Fault("kernel", "one", "another", "a cause", "a fix")


def _peers(at: At) -> Iterator[Fault]:
    """A rule between nodes that a peer's answer may break."""
    for name, other in at.nodes.states.items():
        if name != at.nodes.name:
            if _is_hostile(other):
                raise UnicodeEncodeError("latin-1", "ü", 0, 1, "ordinal not in range(256)")
            yield Fault(name, "one", "another", "a cause", "a fix")


def _self(at: At) -> Iterator[Fault]:
    """A rule between nodes that only the node's own answer breaks."""
    if _is_hostile(at.node):
        raise RecursionError
    yield from _peers(replace(at, nodes=replace(at.nodes, states={})))


def _endless(at: At) -> Iterator[Fault]:
    """A rule with more findings on a node than a person can read."""
    while _is_hostile(at.node):
        yield Fault("kernel", "one", "another", "a cause", "a fix")


OWN = stub("shm.own", _own)
PEERS = stub("ssh.peers", _peers, when="with peers")
SELF = stub("ssh.self", _self, when="with peers")
ENDLESS = stub("shm.endless", _endless)


@pytest.fixture
def rules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judgement, "_BY_AREA", (OWN, ENDLESS, PEERS, SELF))


def _rules(findings: list[Finding]) -> list[tuple[str, str]]:
    return [(each.rule, each.subject) for each in findings]


UNREAD = [
    ("shm.unreadable", "shm.own"),
    ("shm.unreadable", "shm.endless"),
    ("ssh.unreadable", "ssh.peers"),
    ("ssh.unreadable", "ssh.self"),
]


@pytest.mark.usefixtures("rules")
@pytest.mark.parametrize("place", [0, 1, 3])
@pytest.mark.parametrize("count", [2, 3, 6])
def test_who_breaks_a_rule_is_unreadable_and_the_others_are_judged(count: int, place: int) -> None:
    """Wherever it is in the inventory: the healthy ones are as if it were not there."""
    healthy = {f"n{number}": states.state() for number in range(count)}
    names = list(healthy)
    names.insert(place, "x")
    judged = _judged({name: healthy.get(name) or _hostile() for name in names})
    assert _rules(judged.pop("x")) == UNREAD
    assert judged == _judged(healthy)


@pytest.mark.usefixtures("rules")
def test_where_two_break_a_rule_it_is_unreadable_everywhere() -> None:
    """Leaving out a single node finds neither: that rule alone is about all of them."""
    healthy = {f"n{number}": states.state() for number in range(3)}
    judged = _judged({"x": _hostile(), **healthy, "y": _hostile()})
    assert _rules(judged.pop("x")) == UNREAD
    assert _rules(judged.pop("y")) == UNREAD
    for findings in judged.values():
        assert _rules(findings) == [("shm.own", "kernel"), *UNREAD[2:]]


@pytest.mark.usefixtures("rules")
def test_of_two_that_break_a_rule_together_each_is_named() -> None:
    """Which of them lies cannot be seen from two."""
    judged = _judged({"a": states.state(), "x": _hostile()})
    assert UNREAD[2] in _rules(judged["a"])
    assert UNREAD[2] in _rules(judged["x"])


@pytest.mark.usefixtures("rules")
def test_who_breaks_a_rule_for_others_is_unreadable_where_it_is_off_there() -> None:
    """What others are judged by is not off: an entry of one node hides nothing of theirs."""
    nodes = {"a": states.state(), "b": states.state(), "x": _hostile()}
    off = states.wanted({"checks": {"ssh": False, "shm": False}})
    judged = judge(
        {
            name: Judged(found, off if name == "x" else states.wanted(), Nodes(name, (), nodes))
            for name, found in nodes.items()
        }
    )
    assert _rules(judged.findings["x"]) == UNREAD[2:3]
    assert {*UNREAD[:2], UNREAD[3]} <= {*_rules(judged.muted["x"])}
    assert judged.blamed == {"x"}


@pytest.mark.usefixtures("rules")
def test_what_broke_is_reported_in_words() -> None:
    """With the error's class, and that the rest was judged."""
    [own, *_] = check(_hostile(), states.wanted())
    assert own.found == "not understood: OverflowError: date value out of range"
    assert own.severity == "error"
    assert not own.fixable
    assert "judged without it" in own.cause


def test_a_fact_that_cannot_be_made_is_unreadable(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the table and between nodes, and that node says why."""

    def kernel(node: NodeState) -> str | None:
        if _is_hostile(node):
            raise ValueError("no kernel")
        return node.toolchain.kernel

    fact = replace(FACTS[-1], of=kernel)
    for module in ("engine.judgement", "engine.compare", "report.matrix"):
        monkeypatch.setattr(f"gpu_node.drift.{module}.FACTS", (fact,))
    nodes = {"a": states.seen(), "x": replace(states.seen(), state=_hostile())}
    report = reports.report(nodes)
    alone = reports.report({"a": states.seen()})
    assert report.hosts["a"].model_dump() == alone.hosts["a"].model_dump()
    assert report.hosts["x"].status == "unreadable"
    assert report.hosts["x"].findings[0].found == "not understood: ValueError: no kernel"
    assert report.differences[0].values["x"] == "unreadable"
    assert "unreadable" in reports.drawn(nodes, 100)


def test_findings_on_one_node_have_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not judged any more is unreadable: unknown is never equal."""

    def many(at: At) -> Iterator[Fault]:
        """A rule that finds as much as one rule may."""
        yield from [Fault(f"{n}", "one", "another", "a cause", "a fix") for n in range(1000)]

    rules = [stub(f"shm.many-{number}", many) for number in range(4)]
    monkeypatch.setattr(judgement, "_BY_AREA", rules)
    monkeypatch.setattr(judgement, "_COMPARING", ())
    findings = check(states.state(), states.wanted())
    assert len(findings) == 3001
    assert _rules(findings)[-1] == ("shm.unreadable", "shm.many-3")


def test_more_findings_than_a_report_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a later rule finds is counted; one that finds nothing is not mentioned."""

    def many(count: int) -> Rule:
        def check(at: At) -> Iterator[Fault]:
            yield from (Fault(f"kernel {each}", "one", "another") for each in range(count))

        return stub(f"shm.of-{count}", check)

    monkeypatch.setattr(judgement, "_BY_AREA", [*[many(1000)] * 3, many(0), many(2)])
    monkeypatch.setattr(judgement, "_COMPARING", [])
    *listed, last = _judged({"a": states.state()})["a"]
    assert {each.rule for each in listed} == {"shm.of-1000"} and len(listed) == 3000
    assert (last.rule, last.subject) == ("shm.unreadable", "shm.of-2")
    assert last.found == "2 findings left out: more than 3000 already"

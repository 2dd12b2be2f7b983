"""What a rule says of itself ("judged: where the inventory has ...") is when it is judged."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from gpu_node.drift.engine.check import check, judge
from gpu_node.drift.engine.nodes import Judged, Nodes
from gpu_node.drift.engine.registry import RULES, Rule, why_not_judged
from gpu_node.drift.engine.rule import TURNED_OFF, At, Check, Fault
from gpu_node.drift.host.machine import trains
from gpu_node.drift.report.seen import Seen
from gpu_node.facts.areas import AREAS
from gpu_node.facts.probe.peers import Peer
from gpu_node.inventories.keys import flat_key, keys_of
from gpu_node.inventories.wanted import NodeWanted
from tests.case_files import Case, merged
from tests.drift import newcomer, states
from tests.drift.reports import GONE, report
from tests.drift.rule_cases import ALL, nodes_of

KEYS = {flat_key(each.path): each for each in keys_of(NodeWanted)}
SOMEWHERE = [rule for rule in RULES.values() if "`" in rule.judged.partition(";")[0]]
SEVERAL = "several nodes"
NEWCOMERS = [rule for rule in RULES.values() if "a newcomer" in rule.when]
OF_NODES = [rule for rule in RULES.values() if not {"a newcomer", "a job"} & {*rule.when}]


def dotted(flat: str) -> str:
    return ".".join(map(str, KEYS[flat].path))


def groups(rule: Rule) -> list[list[str]]:
    """The keys that a rule's sentence names, as a reader takes it: `a` and `b` or `c`."""
    text = rule.judged.removeprefix("where the inventory has ").removeprefix(f"{SEVERAL}, and ")
    found = [re.findall(r"`([a-z_.]+)(?:: true)?`", part) for part in text.split(" or ")]
    assert all(found), rule.judged
    return found


def is_of(flat: str, keys: Iterable[str]) -> bool:
    """Whether a value is of one of the keys: a section stands for what it holds.

    The first of `workspaces` is `workspace` where that is not there.
    """
    keys = tuple(keys)
    is_first = flat == "workspaces" and flat not in keys
    name = "workspace.path" if is_first else dotted(flat)
    return any(name == key or name.startswith(f"{key}.") for key in keys)


def complete(keys: Iterable[str]) -> set[str]:
    """The values without which the sections of some keys are none."""
    sections = {key.partition(".")[0] for key in keys}
    return {
        flat
        for flat, key in KEYS.items()
        if key.is_needed and len(key.path) == 2 and key.path[0] in sections
    } | {"address"}


def fires(rule: Rule, named: Case, kept: Collection[str]) -> bool:
    """Whether a case has a finding of a rule where the inventory has only some values."""
    case = named.data

    def wanted(change: dict[str, Any] | None) -> NodeWanted:
        whole = {**states.BASE["wanted"], **(change or {})}
        return NodeWanted.from_data(
            {flat: value for flat, value in whole.items() if value is not None and flat in kept}
        )

    change, around = case.get("found"), nodes_of(case)
    if "mesh" in case:
        change, around = states.meshed(change), states.nodes(case["mesh"])
    name = around.name
    nodes = {name: (states.state(states.named(change, name)), wanted(case.get("wanted")))}
    for other, each in case.get("others", {}).items():
        nodes[other] = (states.state(each.get("found")), wanted(each.get("wanted")))
    together = {other: found for other, (found, _) in nodes.items()}
    judged = {
        each: Judged(found, expected, around if len(nodes) == 1 else Nodes(each, (), together))
        for each, (found, expected) in nodes.items()
    }
    return rule.id in {each.rule for each in judge(judged).findings[name]}


def cases(rule: Rule) -> Iterator[Case]:
    """Those with a finding of a rule."""
    for case in ALL:
        if case.subject == rule.id and rule.id in {each["rule"] for each in case.data["findings"]}:
            yield case


@pytest.mark.parametrize("rule", SOMEWHERE, ids=lambda rule: rule.id)
def test_a_rule_is_judged_where_it_says(rule: Rule) -> None:
    """Each group of keys alone is enough for a finding of a case; without all of them is none."""
    own = list(cases(rule))
    for keys in groups(rule):
        enough = complete(keys)
        kept = [flat for flat in KEYS if flat in enough or is_of(flat, keys)]
        assert any(fires(rule, case, kept) for case in own), f"{rule.id} needs more than {keys}"
    for case in own:
        for names in spoiled(groups(rule)):
            gone = {*names, *wholes(names)}
            kept = [flat for flat in KEYS if not is_of(flat, gone)]
            assert not fires(rule, case, kept), f"{rule.id} needs none of {names}: {case}"


def bare_of(change: dict[str, Any]) -> dict[str, Any]:
    """A change of the healthy node that also has no GPU."""
    less: dict[str, Any] = {"driver": {"devices": [], "smi": None, "processes": None}}
    whole = merged(change, less)
    assert isinstance(whole, dict)
    return whole


ON_SOME = [each for each in RULES.values() if each.judged_on]


@pytest.mark.parametrize("rule", ON_SOME, ids=lambda rule: rule.id)
def test_a_rule_is_judged_on_the_nodes_that_it_says(rule: Rule) -> None:
    """Where no key asks for it, what is too little for training is so on a node that trains."""
    nothing = NodeWanted.from_data({"address": "192.0.2.10"})
    changes: list[dict[str, Any]] = [
        case.data.get("found") or {} for case in cases(rule) if "nodes" not in case.data
    ]
    found = [states.state(each) for case in changes for each in (case, bare_of(case))]
    firing = [
        trains(each, nothing)
        for each in found
        if rule.id in {finding.rule for finding in check(each, nothing, Nodes())}
    ]
    assert firing and all(firing)
    assert not all(trains(each, nothing) for each in found)


def spoiled(found: list[list[str]]) -> list[set[str]]:
    """One key of each group, in every way."""
    ways: list[set[str]] = [set()]
    for keys in found:
        ways = [way | {key} for way in ways for key in keys]
    return ways


def wholes(names: set[str]) -> set[str]:
    """The sections that cannot be without one of some keys."""
    needed = {dotted(flat) for flat in complete(names)} & names
    return {each.partition(".")[0] for each in needed}


def fires_alone(rule: Rule, named: Case) -> bool:
    """Whether a case has a finding of a rule where its node is the only one of the inventory."""
    case = named.data
    change, around = case.get("found"), nodes_of(case)
    if "mesh" in case:
        change, around = states.meshed(change), states.nodes(case["mesh"])
    found = states.state(states.named(change, around.name))
    own = tuple(each for each in around.peers if each.name == around.name)
    alone = Nodes(around.name, own, {around.name: found})
    judged = judge({around.name: Judged(found, states.wanted(case.get("wanted")), alone)})
    return rule.id in {each.rule for each in judged.findings[around.name]}


@pytest.mark.parametrize("rule", NEWCOMERS, ids=lambda rule: rule.id)
def test_a_rule_about_newcomers_is_judged_of_no_node(rule: Rule) -> None:
    """What it finds on a server that is to become a node, it does not find on a node."""
    servers = [newcomer.server(case.data) for case in cases(rule)]
    assert servers
    for server in servers:
        of_node = replace(server.nodes, newcomer=None, made={})
        assert [*rule.findings(server.state, server.wanted, server.nodes)]
        assert not [*rule.findings(server.state, server.wanted, of_node)]


@pytest.mark.parametrize("rule", OF_NODES, ids=lambda rule: rule.id)
def test_a_rule_says_that_it_needs_several_nodes(rule: Rule) -> None:
    """A user with one node reads what holds for that node."""
    alone = [case.name for case in cases(rule) if fires_alone(rule, case)]
    assert bool(alone) == (SEVERAL not in rule.judged), alone


@pytest.mark.parametrize("rule", SOMEWHERE, ids=lambda rule: rule.id)
def test_a_switch_is_to_be_on(rule: Rule) -> None:
    """The sentence has `KEY: true` for one, and only for one."""
    switches = {dotted(flat) for flat, key in KEYS.items() if key.allowed == "true or false"}
    for key, value in re.findall(r"`([a-z_.]+)(: true)?`", rule.judged):
        assert bool(value) == (key in switches)


NO_GPU: dict[str, Any] = {"driver": {"smi": {"code": None, "gpus": []}, "devices": []}}


def test_gpus_that_are_missing_are_found_without_a_driver_in_the_inventory() -> None:
    """`gpu: {model: A100, count: 8}` alone, on a machine without GPUs."""
    nothing = {key: None for key in states.BASE["wanted"] if key != "address"}
    wanted = states.wanted({**nothing, "gpu_model": "A100", "gpu_count": 8})
    findings = report({"n": Seen(wanted, states.state(NO_GPU))}).hosts["n"].findings
    (finding,) = [each for each in findings if each.rule == "driver.gpu-differs"]
    assert (finding.subject, finding.found, finding.wanted) == ("count", "0", "8")
    assert finding.severity == "error"


PEERS = tuple(Peer(name=name, address=name) for name in ("a", "off", "cpu", "gone"))
AROUND: dict[str, dict[str, Any]] = {
    "a": {"launcher": None},
    "off": {"checks": dict.fromkeys(AREAS, False)},
    "cpu": {"gpu_model": "none"},
}
UNREAD = {"area": "shm", "section": "shm.usage", "reason": "no answer within 5 s"}
NEWCOMER = "by gpu-node onboard, of a server that is to become a node"
WHY = {
    (
        "toolchain.pdsh",
        "a",
    ): "it is judged where the inventory has several nodes, and `launcher.kind`",
    ("network.route-wrong", "a"): f"it is judged {NEWCOMER}",
    ("job.batch", "a"): "it is judged by gpu-node check-job alone",
    ("shm.too-small", "a"): "",
    ("shm.too-small", "off"): "`checks` of the inventory turns it off",
    ("shm.too-small", "cpu"): "gpu: none in the inventory: the node is not for jobs",
    ("shm.too-small", "gone"): "the node is unreachable",
    ("shm.unreadable", "a"): "",
    ("shm.unreadable", "off"): "`checks` of the inventory turns it off",
    ("shm.no-rule", "a"): "this version has no such rule",
}


@pytest.fixture(name="ran")
def _ran(monkeypatch: pytest.MonkeyPatch) -> set[tuple[str, str]]:
    """The rules whose functions run, each with the node."""
    ran = set()

    def spied(rule: Rule, own: Check) -> Check:
        def spy(at: At) -> Iterator[Fault]:
            ran.add((rule.id, at.nodes.name))
            return own(at)

        return spy

    for rule in RULES.values():
        monkeypatch.setitem(vars(rule), "check", spied(rule, rule.check))
    return ran


def test_a_rule_runs_where_nothing_says_why_not(ran: set[tuple[str, str]]) -> None:
    """And where it is turned off: what it finds there is counted, and is no finding."""
    nodes = {name: replace(states.seen(**each), nodes=PEERS) for name, each in AROUND.items()}
    hosts = report({**nodes, "gone": GONE}).hosts
    for name in AROUND:
        judged = hosts[name].judged
        assert judged is not None
        why = {each: why_not_judged(each, judged) for each in RULES}
        assert {each for each, on in ran if on == name} == {
            rule for rule, reason in why.items() if reason in ("", TURNED_OFF)
        }
        # All values were read, and other nodes were.
        assert why == {rule: hosts[name].why_unknown(rule) for rule in RULES}
    assert {pair: hosts[pair[1]].why_unknown(pair[0]) for pair in WHY} == WHY


@pytest.mark.parametrize(
    ("rule", "found", "others", "why"),
    [
        ("shm.differs", {}, (), "it is judged where the inventory has several nodes"),
        ("shm.differs", {}, ("gone",), "no other node was read"),
        ("shm.differs", {}, ("gone", "b"), ""),
        # It compares a single node with what the inventory pins.
        ("toolchain.package-differs", {}, (), ""),
        ("toolchain.package-differs", {}, ("gone",), "no other node was read"),
        ("shm.too-small", {"unreadable": [UNREAD]}, (), "shm.usage: no answer within 5 s"),
        ("limits.nofile", {"unreadable": [UNREAD]}, (), ""),
    ],
)
def test_what_a_rule_did_not_know(
    rule: str, found: dict[str, Any], others: tuple[str, ...], why: str
) -> None:
    """A value of its area that was not read, or the only other node."""
    peers = tuple(Peer(name=name, address=name) for name in ("a", *others))
    healthy = replace(states.seen(found), nodes=peers)
    seen = {name: GONE if name == "gone" else healthy for name in ("a", *others)}
    assert report(seen).hosts["a"].why_unknown(rule) == why


def test_a_rule_that_breaks_does_not_know(monkeypatch: pytest.MonkeyPatch) -> None:
    """That it has no finding proves nothing."""
    monkeypatch.setitem(vars(RULES["shm.too-small"]), "check", lambda at: map(int, "x"))
    why = report({"a": states.seen()}).hosts["a"].why_unknown("shm.too-small")
    assert why.startswith("shm.too-small: not understood: ValueError")

"""What nodes differ in, over generated reports: one finding for one cause, drift where it is."""

from __future__ import annotations

import re
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_node.drift.engine.compare import UNREADABLE
from gpu_node.drift.engine.fact import Fact, marks_of
from gpu_node.drift.engine.registry import RULES
from gpu_node.drift.engine.shown_facts import FACTS
from gpu_node.drift.own.shown import own_fact
from gpu_node.drift.report.model import HostReport, Report
from gpu_node.drift.toolchain.packages import PACKAGE
from gpu_node.drift.toolchain.shown_packages import package_fact
from tests.drift import states
from tests.drift.reports import drawn, report
from tests.examples import examples

DIS = "/opt/dis"
NEWER = {
    "torch": {"version": "2.3.0+cu121", "nccl": "2.20.5"},
    "loaded": {"version": 22005},
}
KERNEL = "3.10.0-1160.el7.x86_64"
MODULE = {"file": "/nvidia.ko", "version": "550.54.15", "license": "NVIDIA", "signer": ""}
OTHER_DRIVER: dict[str, Any] = {
    "loaded": {"nvidia": "550.54.15"},
    "library": "550.54.15",
    "kernels": {"installed": [{"name": KERNEL, "headers": True, "image": True, "module": MODULE}]},
    "dkms": {"sources": [{"name": "nvidia", "version": "550.54.15"}]},
}
# Changes of the healthy node, by what they concern.
CHANGES: dict[str, list[dict[str, Any]]] = {
    "driver": [
        OTHER_DRIVER,
        {"loaded": {"nvidia": ""}},
        {"library": None},
    ],
    "shm": [{"usage": {"size": 67108864}}, {"usage": {"size": 17179869184}}, {"usage": None}],
    "limits": [{"session": {"nofile": {"soft": 1024}}}, {"session": None}],
    "toolchain": [{"cmake": {"found": []}}, {"cmake": None}],
    "nccl": [
        {"environments": {DIS: NEWER}},
        {"environments": {DIS: {"loaded": {"version": 22005}}}},
        {"environments": {DIS: {"packages": {"numpy": "1.24.0", "six": "1.16.0"}}}},
        {"environments": {DIS: {"packages": {f"p{number}": "1" for number in range(30)}}}},
        {"environments": {DIS: None}, "absent": [DIS]},
        {"packages": []},
    ],
}
# What some inventory entries do not name, or name otherwise.
ENTRIES: list[dict[str, Any]] = [
    {"driver_version": None},
    {"driver_version": "535"},
    {"shm_size": None},
    {"limits_nofile": None},
    {"toolchain_cmake_version": None, "toolchain_cmake_url": None, "toolchain_cmake_sha256": None},
    {"toolchain_packages": {"numpy": "1.26.4"}},
    {"gpu_model": "V100"},
]


@st.composite
def reports(draw: st.DrawFn) -> Report:
    """Reports about one to four nodes, each of which may be unlike the others in any area."""
    change: dict[str, Any] = {
        area: st.sampled_from([{}, {}, *several]) for area, several in CHANGES.items()
    }
    entries = st.lists(st.sampled_from(ENTRIES), max_size=2)
    nodes = {}
    for number in range(draw(st.integers(1, 4))):
        found = {area: draw(each) for area, each in change.items()}
        found["nccl"] = {"environments": {DIS: {}}, **found["nccl"]}
        wanted: dict[str, Any] = {"nccl_environments": [DIS]}
        for each in draw(entries):
            wanted |= each
        nodes[f"n{number}"] = states.seen(found, **wanted)
    return report(nodes)


def _compares(rule: str) -> bool:
    return rule in RULES and RULES[rule].compares


def test_each_fact_that_is_compared_has_a_rule() -> None:
    """And each rule that compares is of such a fact; what may differ on each node has none."""
    facts = (*FACTS, package_fact("numpy"), own_fact("image", "everywhere"))
    assert not [each for each in facts if (not each.row.rule) != (each.comparison == "per-host")]
    of_facts = {each.row.rule for each in facts if each.row.rule}
    assert of_facts == {each for each in RULES if _compares(each)}


def _fact(name: str) -> Fact:
    known = {fact.name: fact for fact in FACTS}
    return known[name] if name in known else package_fact(name.removeprefix(PACKAGE))


def _is_about(fact: Fact, host: HostReport) -> bool:
    """Whether a node has a finding of the fact's rule between nodes, about it."""
    about = {fact.subject, fact.row.follows}
    return any(
        each.rule == fact.row.rule
        and not each.fixable
        and (each.subject in about or _OTHERS.search(each.subject))
        for each in host.findings
    )


@given(reports())
@settings(max_examples=examples(150), deadline=None)
def test_drift_is_where_a_rule_between_nodes_has_a_finding(found: Report) -> None:
    """Of each difference, and each such finding is about a difference."""
    for each in found.differences:
        is_about = any(_is_about(_fact(each.fact), host) for host in found.hosts.values())
        if each.fact.startswith(PACKAGE) and _names_no_more(found):
            assert is_about or not each.drift
        else:
            assert each.drift == is_about, each
    drifting = {_fact(each.fact).subject for each in found.differences if each.drift}
    for host in found.hosts.values():
        subjects = {
            each.subject
            for each in host.findings
            if _compares(each.rule) and not each.fixable
            if not _OTHERS.search(each.subject)
        }
        assert subjects <= drifting


def _names_no_more(found: Report) -> bool:
    """Whether one finding stands for packages that are not of jobs, or beyond the first ones."""
    hosts = found.hosts.values()
    return any(_OTHERS.search(each.subject) for host in hosts for each in host.findings)


_OTHERS = re.compile(r" other packages?$")


@given(reports())
@settings(max_examples=examples(150), deadline=None)
def test_one_finding_for_one_cause(found: Report) -> None:
    """No value has a finding between nodes beside one of its node's own."""
    for host in found.hosts.values():
        own = [each for each in host.findings if not _compares(each.rule) or each.fixable]
        marks = marks_of(each for each in own if each.severity != "info")
        for fact in FACTS:
            if fact.row.rule and not marks.isdisjoint(fact.row.marked_by):
                found_here = [(each.rule, each.subject) for each in host.findings]
                assert (fact.row.rule, fact.subject) not in found_here


@given(reports())
@settings(max_examples=examples(150), deadline=None)
def test_the_exit_code_follows_from_the_findings(found: Report) -> None:
    """2 where a node has an error or a warning; 1 where a value keeps nodes from being compared."""
    findings = [each for host in found.hosts.values() for each in host.findings]
    wrong = [each for each in findings if each.severity != "info"]
    unread = [each for each in wrong if each.rule.endswith(".unreadable")]
    missing = [each for each in wrong if each.found == UNREADABLE]
    if unread or missing:
        assert found.exit_code() == 1
    elif not any(UNREADABLE in each.values.values() for each in found.differences):
        assert found.exit_code() == (2 if wrong else 0)


def test_differences_of_two_causes_are_two_findings() -> None:
    """A driver and a limit: each is reported once in the table, on the nodes that have it."""
    free = {"limits_nofile": None, "driver_version": None}
    other = {**CHANGES["limits"][0]}
    nodes = {
        "n0": states.seen(None, **free),
        "n1": states.seen({"limits": other, "driver": CHANGES["driver"][0]}, **free),
    }
    text = drawn(nodes, 160)
    assert text.count("driver.differs  n0, n1") == 1
    assert text.count("limits.differs  n0, n1") == 1
    assert "found   driver.version: 535.154.05 on n0; 550.54.15 on n1" in text

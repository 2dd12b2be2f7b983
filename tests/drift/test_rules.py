"""One test per case file, cases/RULE/CASE.yml: a node, and the complete list of its findings."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpu_node.drift.engine.check import check
from gpu_node.drift.engine.neighbours import Among
from gpu_node.drift.engine.rule import Fault, Rule, is_named
from gpu_node.drift.engine.rules import RULES
from gpu_node.facts.node import NodeState
from tests.drift import states
from tests.drift.rule_cases import FILES, findings_of, load

AREAS = [name for name in NodeState.model_fields if name != "unreadable"]
# The areas that the inventory of base.yml manages, and those without a key in it.
JUDGED = [area for area in AREAS if is_named(area, states.wanted())]
COMPARED = ("rule", "subject", "found", "fixable")


def _name(path: Path) -> str:
    return f"{path.parent.name}/{path.stem}"


def test_the_healthy_node_has_no_finding() -> None:
    """The control: without a change nothing is reported."""
    assert check(states.found(), states.wanted()) == []
    assert check(states.found(states.MESH), states.wanted(), states.among()) == []


def test_each_rule_has_a_case_that_fires() -> None:
    """A rule that is never seen to fire could be removed unnoticed."""
    fired = {finding["rule"] for path in FILES for finding in load(path)["findings"]}
    others = {f"{area}.unreadable" for area in AREAS if area not in JUDGED}
    assert fired >= {*RULES, *others}


@pytest.mark.parametrize("area", JUDGED)
def test_what_cannot_be_read_is_a_finding_of_its_area(area: str) -> None:
    """Whatever the area is: it needs no case of its own."""
    lost = {"area": area, "section": f"{area}.some", "reason": "no answer within 5 s"}
    findings = check(states.found({"unreadable": [lost]}), states.wanted())
    (finding,) = [each for each in findings if each.rule == f"{area}.unreadable"]
    assert (finding.subject, finding.fixable) == (f"{area}.some", False)
    assert "no answer within 5 s" in finding.found


@pytest.mark.parametrize("path", FILES, ids=_name)
def test_a_case_says_what_it_is_about(path: Path) -> None:
    """The folder names a rule and the first line describes the case."""
    assert path.parent.name in {*RULES, *(f"{area}.unreadable" for area in AREAS)}
    assert path.read_text().startswith("# ")


@pytest.mark.parametrize("path", FILES, ids=_name)
def test_findings(path: Path) -> None:
    """The node of a case has these findings and no other, with these words in cause or fix."""
    findings, expected = findings_of(path)
    assert [finding.model_dump(include=set(COMPARED)) for finding in findings] == [
        {key: each[key] for key in COMPARED} for each in expected
    ]
    for finding, each in zip(findings, expected, strict=True):
        assert each.get("says", "") in f"{finding.cause} {finding.fix}"
        assert (finding.wanted, finding.severity) == (
            each.get("wanted", finding.wanted),
            each.get("severity", finding.severity),
        )
        explained = finding.root.rule if finding.root is not None else "none"
        assert each.get("root", explained) == explained
    there = {(each.rule, each.subject): each for each in findings}
    for root in (each.root for each in findings if each.root is not None):
        assert there[root.rule, root.subject].root is None


@pytest.mark.parametrize("rule", RULES.values(), ids=lambda rule: rule.id)
def test_a_rule_says_what_it_checks(rule: Any) -> None:
    """Its summary is a sentence that the documentation can show."""
    assert rule.summary.endswith(".")
    assert rule.area in AREAS


def test_a_rule_declares_the_severities_of_its_findings() -> None:
    """Each is that of a case, and no case has another one: rules.md and explain list them."""
    found: dict[str, set[str]] = {rule: set() for rule in RULES}
    for path in FILES:
        for finding in findings_of(path)[0]:
            found.setdefault(finding.rule, set()).add(finding.severity)
    assert {rule.id: {*rule.severities} for rule in RULES.values()} == {
        rule: found[rule] for rule in RULES
    }


def test_a_severity_that_a_rule_does_not_declare_is_a_mistake() -> None:
    """Otherwise the documentation would name another one."""

    def check(found: object, wanted: object) -> Iterator[Fault]:
        yield Fault("one", "two", "three", "four", "five", False, "info")

    findings = Rule("shm.nowhere", "error", check, whole=True).findings(None, None, Among())
    with pytest.raises(ValueError, match=r"shm\.nowhere does not declare the severity info"):
        list(findings)


def test_a_rule_names_a_step_if_a_case_has_a_fixable_finding() -> None:
    """A rule with a step has a case that its step repairs, and one without a step has none."""
    fixable = {
        finding["rule"]
        for path in FILES
        for finding in load(path)["findings"]
        if finding["fixable"]
    }
    assert fixable == {rule.id for rule in RULES.values() if rule.steps}


def test_a_fixable_finding_of_a_rule_without_a_step_is_a_mistake() -> None:
    """Otherwise a run would claim to repair what no step repairs."""

    def check(found: object, wanted: object) -> Iterator[Fault]:
        yield Fault("one", "two", "three", "four", "five")

    findings = Rule("shm.nowhere", "error", check, whole=True).findings(None, None, Among())
    with pytest.raises(ValueError, match=r"shm\.nowhere .* names no step"):
        list(findings)

"""One test per case file, cases/RULE/CASE.yml: a node, and the complete list of its findings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from drift.among import Among
from drift.check import check
from drift.rules import RULES
from facts.cluster import peers
from facts.node import NodeState
from tests import case_files
from tests.drift import states

CASES = Path(__file__).parent / "cases"
FILES = sorted(CASES.glob("*/*.yml"))
AREAS = [name for name in NodeState.model_fields if name != "unreadable"]
COMPARED = ("rule", "subject", "found", "fixable")


def _name(path: Path) -> str:
    return f"{path.parent.name}/{path.stem}"


def _load(path: Path) -> dict[str, Any]:
    case: dict[str, Any] = case_files.load(path.read_text())
    assert case.keys() <= {"found", "wanted", "among", "beside", "findings"}
    return case


def _beside(said: dict[str, Any] | None) -> Among:
    """The node among others: `found` are those that answered, each a change of the healthy one."""
    case = said or {}
    found = {name: states.found(change) for name, change in case.get("found", {}).items()}
    return Among(
        case.get("name", ""), peers(case.get("nodes", ())), found, bool(case.get("allow_deletions"))
    )


def test_the_healthy_node_has_no_finding() -> None:
    """The control: without a change nothing is reported."""
    assert check(states.found(), states.wanted()) == []
    assert check(states.found(states.MESH), states.wanted(), states.among()) == []


def test_each_rule_has_a_case_that_fires() -> None:
    """A rule that is never seen to fire could be gone without anybody noticing."""
    fired = {finding["rule"] for path in FILES for finding in _load(path)["findings"]}
    assert fired == {*RULES, *(f"{area}.unreadable" for area in AREAS)}


@pytest.mark.parametrize("path", FILES, ids=_name)
def test_a_case_says_what_it_is_about(path: Path) -> None:
    """The folder names a rule and the first line tells the story."""
    assert path.parent.name in {*RULES, *(f"{area}.unreadable" for area in AREAS)}
    assert path.read_text().startswith("# ")


@pytest.mark.parametrize("path", FILES, ids=_name)
def test_findings(path: Path) -> None:
    """The node of a case has these findings and no other, with these words in cause or fix."""
    case = _load(path)
    change, around = case.get("found"), _beside(case.get("beside"))
    if "among" in case:  # in the mesh of base.yml
        change, around = states.meshed(change), states.among(case["among"])
    findings = check(states.found(change), states.wanted(case.get("wanted")), around)
    expected = case["findings"]
    assert [finding.model_dump(include=set(COMPARED)) for finding in findings] == [
        {key: each[key] for key in COMPARED} for each in expected
    ]
    for finding, each in zip(findings, expected, strict=True):
        assert each.get("says", "") in f"{finding.cause} {finding.fix}"
        assert (finding.wanted, finding.severity) == (
            each.get("wanted", finding.wanted),
            each.get("severity", finding.severity),
        )


@pytest.mark.parametrize("rule", RULES.values(), ids=lambda rule: rule.id)
def test_a_rule_says_what_it_checks(rule: Any) -> None:
    """Its summary is a sentence that the documentation can show."""
    assert rule.summary.endswith(".")
    assert rule.area in AREAS

"""One test a case of cases/RULE.yml: a node, and the complete list of its findings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import yaml

from gpu_node.diagnose.cause import causes
from gpu_node.drift.driver.boot import MOST_REPAIRED
from gpu_node.drift.driver.rules_gpu_memory import MOST_PAGES
from gpu_node.drift.engine.areas import hooks_of
from gpu_node.drift.engine.blocking import blocks_a_job, kinds
from gpu_node.drift.engine.check import check
from gpu_node.drift.engine.finding import Finding
from gpu_node.drift.engine.nodes import Nodes
from gpu_node.drift.engine.registry import RULES
from gpu_node.drift.engine.rule import At, Fault, Rule, is_named
from gpu_node.drift.report.problems import LONGEST_WANTED
from gpu_node.facts.node import NodeState
from gpu_node.facts.probe.peers import FULL_MESH
from tests.case_files import Case
from tests.drift import states
from tests.drift.rule_cases import ALL, KEYS, findings_of
from tests.drift.stub import stub

AREAS = [name for name in NodeState.model_fields if name != "unreadable"]
# The areas that the inventory of base.yml manages, those without a key in it, and those of which
# only some facts need one.
JUDGED = [
    area
    for area in AREAS
    if is_named(area, states.wanted()) or f"{area}." not in hooks_of(area).only_named
]
COMPARED = ("rule", "subject", "found", "fixable")


@cache
def of_the_healthy() -> frozenset[str]:
    """Return the rules that have a finding without a change."""
    alone = check(states.state(), states.wanted())
    meshed = check(states.state(states.MESH), states.wanted(), states.nodes())
    return frozenset(each.rule for each in (*alone, *meshed))


def test_the_healthy_node_has_no_finding() -> None:
    """The control: base.yml, and `healthy` of facts/*/readings.yml."""
    assert not of_the_healthy(), "the healthy node has a finding"


def test_what_stops_a_job_has_its_source() -> None:
    """stops.yml names a cause that names the rule, or where it was seen."""
    sources = yaml.safe_load(Path(__file__).with_name("stops.yml").read_text(encoding="utf-8"))
    stopping = {rule.id for rule in RULES.values() if rule.stops not in ("", "unknown")}
    assert sources.keys() == stopping
    named = {(name, rule) for name, cause in causes().items() for rule in cause.rules}
    unfounded = [
        rule
        for rule, source in sources.items()
        if (source.get("cause"), rule) not in named
        and not (str(source.get("seen")).startswith("https://") and len(source["says"]) > 20)
    ]
    assert unfounded == []


def test_a_rule_says_when_its_errors_stop_nothing() -> None:
    """explain shows it: those whose cases have an error that stops no job."""
    sparing = {
        finding.rule
        for case in ALL
        for finding in findings_of(case)[0]
        if finding.severity == "error" and not finding.stops and finding.rule in RULES
    }
    rules = [rule for rule in RULES.values() if rule.stops not in ("", "unknown")]
    assert {rule.id for rule in rules if rule.spares} == {
        rule.id for rule in rules if rule.id in sparing
    }


def test_each_rule_has_a_case_that_fires() -> None:
    """A rule that is never seen to fire could be removed unnoticed."""
    fired = {finding["rule"] for case in ALL for finding in case.data["findings"]}
    others = {f"{area}.unreadable" for area in AREAS if area not in JUDGED}
    missing = {*RULES, *others} - fired
    assert not missing, "no case has a finding of these"


def test_each_relation_has_a_case_where_it_holds() -> None:
    """Else another value, or another order, could be written unnoticed."""
    held = {
        case.subject
        for case in ALL
        if case.subject not in {finding["rule"] for finding in case.data["findings"]}
    }
    missing = {rule.id for rule in RULES.values() if rule.relation is not None} - held
    assert not missing, "no case of these is without a finding of them"


def test_a_container_has_its_advice() -> None:
    """Each rule that has one has a case of a container, and the finding there says nothing else."""
    advised = {
        finding.rule
        for case in ALL
        for finding in findings_of(case)[0]
        if finding.rule in RULES and finding.fix == RULES[finding.rule].in_container
    }
    assert advised == {rule.id for rule in RULES.values() if rule.in_container}


def test_explain_names_the_start_of_a_container_where_a_fix_does() -> None:
    """What a finding says on a node that is a container does not contradict its rule."""
    advised = {
        finding.rule
        for case in ALL
        for finding in findings_of(case)[0]
        if finding.rule in RULES
        and not finding.fixable
        and re.search("^start the container|the container's --", finding.fix)
    }
    assert {"limits.nofile", "limits.nproc", "shm.container"} <= advised
    rules = [RULES[name] for name in sorted(advised)]
    silent = [each.id for each in rules if "container" not in each.manual + each.in_container]
    assert silent == []


@pytest.mark.parametrize("area", JUDGED)
def test_what_cannot_be_read_is_a_finding_of_its_area(area: str) -> None:
    """Whatever the area is: it needs no case of its own."""
    lost = {"area": area, "section": f"{area}.some", "reason": "no answer within 5 s"}
    findings = check(states.state({"unreadable": [lost]}), states.wanted())
    (finding,) = [each for each in findings if each.rule == f"{area}.unreadable"]
    assert (finding.subject, finding.fixable) == (f"{area}.some", False)
    assert "no answer within 5 s" in finding.found


def test_a_case_says_what_it_is_about() -> None:
    """The file names a rule and the comment describes the case."""
    subjects = {*RULES, *(f"{area}.unreadable" for area in AREAS)}
    described = [each for each in ALL if each.about and each.data.keys() <= KEYS]
    assert [
        str(each) for each in ALL if each.subject not in subjects or each not in described
    ] == []


@pytest.mark.parametrize("case", ALL, ids=str)
def test_findings(case: Case) -> None:
    """The node of a case has these findings and no other, with these words in cause or fix.

    `alone` has words of what a user without root can do.
    """
    healthy = ", ".join(of_the_healthy())
    assert not healthy, f"the healthy node, without the change of a case, has a finding: {healthy}"
    findings, expected = findings_of(case)
    assert [finding.model_dump(include=set(COMPARED)) for finding in findings] == [
        {key: each[key] for key in COMPARED} for each in expected
    ]
    for finding, each in zip(findings, expected, strict=True):
        assert each.get("says", "") in f"{finding.cause} {finding.fix}"
        assert each.get("fix", finding.fix) == finding.fix
        assert each.get("alone", "") in finding.alone
        assert (finding.wanted, finding.severity) == (
            each.get("wanted", finding.wanted),
            each.get("severity", finding.severity),
        )
        stops = blocks_a_job(finding, kinds(2))
        assert each.get("stops", stops) == stops, finding.rule
        explained = finding.root.rule if finding.root is not None else "none"
        assert each.get("root", explained) == explained
    there = {(each.rule, each.subject): each for each in findings}
    for root in (each.root for each in findings if each.root is not None):
        assert there[root.rule, root.subject].root is None


@pytest.mark.parametrize("rule", ["job.nodes", "job.slots"])
def test_the_table_has_what_a_job_needs(rule: str) -> None:
    """What is wanted is no longer than the table shows."""
    wanted = {
        each.wanted
        for case in ALL
        if case.subject == rule
        for each in findings_of(case)[0]
        if each.rule == rule
    }
    assert [text for text in wanted if len(text) > LONGEST_WANTED] == []


def test_a_rule_says_what_it_checks() -> None:
    """Its summary is a sentence that the documentation can show."""
    fits = {name for name, rule in RULES.items() if rule.checks[-1:] == "." and rule.area in AREAS}
    assert [*RULES.keys() - fits] == []


@pytest.mark.parametrize(
    ("rule", "number"),
    [
        ("driver.headers-missing", f"for at most {MOST_REPAIRED} kernels"),
        ("driver.next-boot", f"{MOST_REPAIRED} kernels with the running one"),
        ("driver.page-retirement", f"more than {MOST_PAGES} pages"),
        ("ssh.logins-partial", f"with more than {FULL_MESH} nodes"),
    ],
)
def test_a_row_has_the_numbers_of_the_code(rule: str, number: str) -> None:
    assert number in f"{RULES[rule].why} {RULES[rule].manual} {RULES[rule].repair}"


def test_a_rule_declares_the_severities_of_its_findings() -> None:
    """Each is that of a case, and no case has another one: rules.md and explain list them."""
    found: dict[str, set[str]] = {rule: set() for rule in RULES}
    for case in ALL:
        for finding in findings_of(case)[0]:
            found.setdefault(finding.rule, set()).add(finding.severity)
    assert {rule.id: {*rule.severity} for rule in RULES.values()} == {
        rule: found[rule] for rule in RULES
    }


def _found(rule: Rule) -> Iterator[Finding]:
    return rule.findings(states.state(), states.wanted(), Nodes())


def test_a_severity_that_a_rule_does_not_declare_is_a_mistake() -> None:
    """Otherwise the documentation would name another one."""

    def one(at: At) -> Iterator[Fault]:
        yield Fault("one", "two", "three", "four", "five", False, "info")

    findings = _found(stub("shm.nowhere", one))
    with pytest.raises(ValueError, match=r"shm\.nowhere does not declare the severity info"):
        list(findings)


def test_a_rule_names_a_step_if_a_case_has_a_fixable_finding() -> None:
    """A rule with a step has a case that its step repairs, and one without a step has none."""
    fixable = {
        finding["rule"] for case in ALL for finding in case.data["findings"] if finding["fixable"]
    }
    assert fixable == {rule.id for rule in RULES.values() if rule.steps}


def test_a_fixable_finding_of_a_rule_without_a_step_is_a_mistake() -> None:
    """Otherwise a run would claim to repair what no step repairs."""

    def one(at: At) -> Iterator[Fault]:
        yield Fault("one", "two", "three", fixable=True)

    findings = _found(stub("shm.nowhere", one))
    with pytest.raises(ValueError, match=r"shm\.nowhere .* names no step"):
        list(findings)


@pytest.mark.parametrize("steps", [(), ("shm",)])
def test_a_fault_has_what_its_rule_says(steps: tuple[str, ...]) -> None:
    """Cause, fix and whether the deploy repairs it, where it has none of its own."""

    def one(at: At) -> Iterator[Fault]:
        yield Fault("one", "two", "three")
        yield Fault("one", "two", "three", "it is 9 bytes long", "write 10", fixable=False)

    repaired = {"steps": steps, "key": "shm.size"}
    rule = stub("shm.nowhere", one, repaired=repaired, why="short", manual="write more")
    usual, own = _found(rule)
    assert (usual.cause, usual.fix, usual.fixable) == ("short", "write more", bool(steps))
    assert (own.cause, own.fix, own.fixable) == ("it is 9 bytes long", "write 10", False)

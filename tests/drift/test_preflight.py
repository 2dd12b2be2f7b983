"""One test a case of preflight/ABOUT.yml: a server, and each finding of its report."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from gpu_node.drift.engine.blocking import bars_joining
from gpu_node.drift.engine.finding import Finding
from gpu_node.drift.engine.registry import RULES, Rule
from gpu_node.drift.engine.rule import At
from gpu_node.drift.report.model import Report
from gpu_node.facts import node
from gpu_node.facts.areas import AREAS
from gpu_node.onboarding import preflight
from gpu_node.onboarding.preflight import Answers
from tests import case_files
from tests.case_files import Case
from tests.drift import newcomer
from tests.drift.rule_cases import ALL
from tests.facts.preflight import REQUEST

CASES = case_files.cases(Path(__file__).parent / "preflight")


def _report(case: Mapping[str, Any]) -> Report:
    """The report about the base's server with a case's changes; a member may be a reason alone."""
    state, wanted, nodes, silent = newcomer.server(case)
    assert nodes.newcomer is not None
    return Answers(nodes, nodes.newcomer, state, silent).report(wanted)


def _findings(case: Mapping[str, Any]) -> list[Finding]:
    return _report(case).hosts[newcomer.NAME].findings


@contextmanager
def _checking_by(rule: Rule, check: Callable[..., Iterator[Any]]) -> Iterator[None]:
    """Have a rule judge by another check."""
    before = rule.check
    object.__setattr__(rule, "check", check)
    try:
        yield
    finally:
        object.__setattr__(rule, "check", before)


def test_a_server_that_is_right_goes_on() -> None:
    """The control: nothing is found, and every node was asked."""
    report = _report({})
    assert (list(report.hosts), report.exit_code()) == ([newcomer.NAME], 0)
    assert report.summary.findings == {"error": 0, "warning": 0, "info": 0}


@pytest.mark.parametrize("named", CASES, ids=str)
def test_findings(named: Case) -> None:
    """Those of a case, and no other; `says` is in what is wanted, the cause or the fix."""
    assert named.about
    case = named.data
    assert case.keys() <= {"found", "members", "newcomer", "wanted", "findings", "unasked"}
    report = _report(case)
    found = report.hosts[newcomer.NAME].findings
    shown = [
        {
            **{key: getattr(each, key) for key in ("rule", "subject", "found", "severity")},
            **({"fixable": True} if each.fixable else {}),
            "stops": bars_joining(each),
        }
        for each in found
    ]
    assert shown == [
        {key: value for key, value in each.items() if key != "says"} for each in case["findings"]
    ]
    for finding, each in zip(found, case["findings"], strict=True):
        assert each.get("says", "") in f"{finding.wanted} {finding.cause} {finding.fix}"
    unasked = {name: each.error for name, each in report.hosts.items() if each.error}
    assert unasked.keys() == case.get("unasked", {}).keys()
    assert all(
        unasked[name].startswith(f"{why}: ") for name, why in case.get("unasked", {}).items()
    )


def test_an_error_of_each_rule_about_newcomers_stops() -> None:
    """It is judged to say whether the server can be a node."""
    rules = [rule for rule in RULES.values() if "a newcomer" in rule.when]
    graves = [rule for rule in rules if "error" in rule.severity]
    assert graves and [rule.id for rule in graves if rule.bars != "join"] == []


def test_what_rules_about_newcomers_need_is_asked() -> None:
    """What bars where it is unread, and each fact that a case changes of the server or a member."""
    needed = {section for rule in RULES.values() for section in rule.reads}
    assert needed <= {each.name for each in node.sections(REQUEST)}
    of_members: set[str] = set()
    for case in ALL:
        if "newcomer" in case.data and "a newcomer" in RULES[case.subject].when:
            needed |= _sections(case.data.get("found", {}))
            for member in case.data.get("members", {}).values():
                of_members |= set() if isinstance(member, str) else _sections(member)
    assert needed
    assert of_members
    assert [each for each in sorted(needed) if not each.startswith(preflight._OF_SERVER)] == []
    assert [each for each in sorted(of_members) if not each.startswith(preflight._OF_NODES)] == []


def _sections(state: Mapping[str, Any]) -> set[str]:
    facts = [(area, fact) for area, each in state.items() if area in AREAS for fact in each]
    return {f"{area}.{fact}".replace("_", "-") for area, fact in facts}


_BARRING = ("host.system", "host.disks", "host.machine-id", "ssh.scans")
_OTHERS = ("host.package-lock", "driver.pci", "driver.smi", "ssh.names", "clock.begin")


@pytest.mark.parametrize("section", [*_BARRING, *_OTHERS, "nccl.manager", "network.routes"])
def test_what_could_not_be_read_is_never_ok(section: str) -> None:
    """It is named with the reason, and stops where the server cannot be judged without it."""
    area = section.partition(".")[0]
    lost = {"area": area, "section": section, "reason": "no answer within 5 s"}
    (found,) = _findings({"found": {"unreadable": [lost]}})
    assert (found.rule, found.subject) == (f"{area}.unreadable", section)
    assert found.found == "no answer within 5 s"
    assert "INVENTORY" not in found.fix  # which does not have the server
    assert bars_joining(found) is (section in _BARRING)


def test_a_member_that_cannot_be_judged_gave_no_answer() -> None:
    """The server is judged beside the others, and the report names the one that failed."""
    name = next(iter(newcomer.BASE["members"]))
    rule = RULES["host.node-already"]

    def broken(at: At) -> Iterator[Any]:
        if at.of(name) is not None:
            raise OverflowError("too large")
        yield from ()

    with _checking_by(rule, broken):
        report = _report({})
    assert report.hosts[name].status == "unreadable"
    assert "not understood" in str(report.hosts[name].error)


@pytest.mark.parametrize("rule", ["driver.in-use", "host.node-already"])
def test_a_rule_that_the_server_breaks_stops_it(rule: str) -> None:
    """The finding has the reason; the other rules are judged."""

    def broken(*of: Any) -> Iterator[Any]:
        raise OverflowError("too large")

    with _checking_by(RULES[rule], broken):
        (found,) = _findings({})
    assert (found.subject, bars_joining(found)) == (rule, True)
    assert "OverflowError: too large" in found.found


@pytest.mark.parametrize("off", [False, {"until": "9999-12-31", "reason": "later"}], ids=str)
def test_an_option_disarms_no_guard(off: object) -> None:
    """What the inventory turns off in reports stops an onboarding still."""
    muted = {"checks": {"driver": off}}
    found = {"driver": {"devices": [], "smi": {"code": None, "gpus": [], "output": ""}}}
    (stop,) = filter(bars_joining, _findings({"wanted": muted, "found": found}))
    assert (stop.rule, stop.subject, stop.found) == ("driver.no-gpu", "GPUs", "none")

"""One test a case of preflight/ABOUT.yml: a server, and every row that is not ok."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from gpu_node.drift.driver import checked as driver
from gpu_node.drift.engine.nodes import Nodes
from gpu_node.drift.engine.preflight import Check, Row, checked, rows
from gpu_node.drift.engine.registry import RULES, Rule
from gpu_node.drift.report.preflight import table
from gpu_node.facts.areas import AREAS
from tests import case_files
from tests.case_files import Case
from tests.drift import newcomer
from tests.drift.rule_cases import ALL

CASES = case_files.cases(Path(__file__).parent / "preflight")


def _rows(case: Mapping[str, Any]) -> list[Row]:
    """The rows about the base's server with a case's changes; a member may be a reason alone."""
    return rows(*newcomer.server(case))


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
    """The control: every row is ok, and each thing is looked at once."""
    shown = _rows({})
    assert [row for row in shown if row.verdict != "ok"] == []
    subjects = [row.subject for row in shown]
    assert len(subjects) == len(set(subjects))


@pytest.mark.parametrize("named", CASES, ids=str)
def test_rows(named: Case) -> None:
    """The rows of a case that are not ok, and no other; `says` is in why or fix."""
    assert named.about
    case = named.data
    assert case.keys() <= {"found", "members", "newcomer", "wanted", "rows", "ok"}
    found = _rows(case)
    wrong = [row for row in found if row.verdict != "ok"]
    keys = ("subject", "found", "verdict")
    shown = [{key: getattr(row, key) for key in keys} for row in wrong]
    assert shown == [{key: each[key] for key in keys} for each in case["rows"]]
    for row, each in zip(wrong, case["rows"], strict=True):
        assert each.get("says", "") in f"{row.wanted} {row.why} {row.fix}"
        assert row.why
    right = {row.subject: row.found for row in found if row.verdict == "ok"}
    assert {subject: right.get(subject) for subject in case.get("ok", {})} == case.get("ok", {})


def _checks() -> Iterator[Check]:
    state, wanted, nodes, _ = newcomer.server({})
    for area in checked():
        for part in area.parts.values():
            yield from part(state, wanted, nodes)


def test_each_rule_about_newcomers_has_a_row() -> None:
    """What it finds is shown nowhere else."""
    shown = {rule.id for check in _checks() for rule in check.rules}
    assert {rule.id for rule in RULES.values() if rule.newcomers} - shown == set()


def test_what_rules_about_newcomers_need_is_asked() -> None:
    """What a row names, and each fact that a case changes of the server or of a member."""
    needed = {check.section for check in _checks() if check.section}
    of_members: set[str] = set()
    for case in ALL:
        if "newcomer" in case.data and RULES[str(case).partition("/")[0]].newcomers:
            needed |= _sections(case.data.get("found", {}))
            for member in case.data.get("members", {}).values():
                of_members |= set() if isinstance(member, str) else _sections(member)
    of_server = tuple(each for area in checked() for each in area.of_server)
    of_nodes = tuple(each for area in checked() for each in area.of_nodes)
    assert needed
    assert of_members
    assert [each for each in sorted(needed) if not each.startswith(of_server)] == []
    assert [each for each in sorted(of_members) if not each.startswith(of_nodes)] == []


def _sections(state: Mapping[str, Any]) -> set[str]:
    facts = [(area, fact) for area, each in state.items() if area in AREAS for fact in each]
    return {f"{area}.{fact}".replace("_", "-") for area, fact in facts}


@pytest.mark.parametrize(
    ("area", "fact"),
    [
        *(("host", fact) for fact in ("system", "disks", "name", "package_lock", "repositories")),
        *(("driver", fact) for fact in ("uuids", "smi", "library", "secure_boot", "processes")),
        *(("fabric", fact) for fact in ("switches", "nvlinks")),
        *(("ssh", fact) for fact in ("names", "scans")),
        *(("clock", fact) for fact in ("begin", "end")),
        *(("network", fact) for fact in ("links", "addresses", "routes")),
        ("nccl", "manager"),
    ],
)
def test_what_could_not_be_read_is_never_ok(area: str, fact: str) -> None:
    """Each fact that is missing costs its row the ok, and the fact is named with the reason."""
    found = _rows({"found": {area: {fact: None}}})
    assert any(row.verdict != "ok" and "unknown" in row.found for row in found)


@pytest.mark.parametrize("width", [80, 160])
def test_the_table_fits_and_says_it_all(width: int) -> None:
    """Without colour the words tell the verdict; what a server says steers no terminal."""
    shown = [*_rows({}), Row("[bold]\x1b[31m", "x" * 200, "stop", "why", "fix", "wanted")]
    console = Console(file=io.StringIO(), width=width)
    console.print(table(shown))
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    assert max(map(len, text.splitlines())) <= width
    assert "\x1b" not in text
    assert "[bold]" in text
    for row in shown[:-1]:
        assert row.subject in text
    assert text.splitlines()[-1].endswith("1 stop; nothing was changed")


def test_a_member_that_cannot_be_judged_gave_no_answer() -> None:
    """The server is judged beside the others, and a row names the one that failed."""
    name = next(iter(newcomer.BASE["members"]))
    rule = RULES["host.node-already"]

    def broken(found: Any, wanted: Any, nodes: Nodes) -> Iterator[Any]:
        if name in nodes.states:
            raise OverflowError("too large")
        yield from ()

    with _checking_by(rule, broken):
        found = _rows({})
    (row,) = [row for row in found if row.subject == name]
    assert (row.verdict, row.found) == ("warning", "not asked")


def test_a_rule_that_the_server_breaks_stops_it() -> None:
    """In a row of the table, with the reason; the other rules are judged."""

    def broken(*of: Any) -> Iterator[Any]:
        raise OverflowError("too large")

    rule = RULES["driver.in-use"]
    with _checking_by(rule, broken):
        found = _rows({})
    (row,) = [row for row in found if row.verdict != "ok"]
    assert (row.subject, row.verdict) == ("GPU processes", "stop")
    assert "OverflowError: too large" in row.found


def test_a_fact_that_the_server_breaks_stops_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a row of the table, with the reason."""

    def broken(*of: Any) -> Iterator[Any]:
        raise OverflowError("too large")

    monkeypatch.setattr(driver, "cards", broken)
    [row] = _rows({})
    assert (row.verdict, row.found) == ("stop", "unknown: OverflowError: too large")


@pytest.mark.parametrize("off", [False, {"until": "9999-12-31", "reason": "later"}], ids=str)
def test_an_option_disarms_no_guard(off: object) -> None:
    """What the inventory turns off in reports stops an onboarding still."""
    muted = {"checks": {"driver": off}}
    found = {"driver": {"devices": [], "smi": {"code": None, "gpus": [], "output": ""}}}
    (row,) = [row for row in _rows({"wanted": muted, "found": found}) if row.verdict == "stop"]
    assert (row.subject, row.found) == ("GPUs", "none")

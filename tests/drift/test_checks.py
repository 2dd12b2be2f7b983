"""`checks` in the inventory: what is turned off is no finding, is counted, and ends on its day."""

from __future__ import annotations

import io
from datetime import date, timedelta
from typing import Any

import pytest
from rich.console import Console

from gpu_node.drift.engine.check import check
from gpu_node.drift.engine.nodes import Nodes
from gpu_node.drift.report import table
from gpu_node.drift.report.formats import printed
from gpu_node.drift.report.model import Report, report_of
from gpu_node.drift.report.seen import Seen
from gpu_node.drift.report.view import View
from tests.drift import states
from tests.drift.reports import concise, drawn, report, written

SMALL: dict[str, Any] = {"shm": {"usage": {"size": 67108864}, "mode": {"mode": "0755"}}}


@pytest.mark.parametrize(
    ("checks", "left"),
    [
        ({}, {"shm.too-small", "shm.permissions"}),
        ({"shm.too-small": False}, {"shm.permissions"}),
        ({"shm": False}, set()),
        ({"shm": False, "shm.permissions": True}, {"shm.permissions"}),
        ({"limits": False}, {"shm.too-small", "shm.permissions"}),
    ],
)
def test_a_rule_or_an_area_is_turned_off(checks: dict[str, bool], left: set[str]) -> None:
    """The word for a rule has precedence over the one for its area."""
    findings = check(states.state(SMALL), states.wanted({"checks": checks}))
    assert {each.rule for each in findings} == left


def test_an_area_that_is_turned_off_need_not_be_readable() -> None:
    """Unknown is an error where it is judged."""
    lost = {"unreadable": [{"area": "shm", "section": "shm.size", "reason": "lost"}]}
    assert check(states.state(lost), states.wanted({"checks": {"shm": False}})) == []
    assert [each.rule for each in check(states.state(lost), states.wanted())] == ["shm.unreadable"]


OLD_GCC = {"toolchain": {"versions": {"gcc": {"path": "/usr/bin/gcc", "version": "8.5.0"}}}}


def _pair(**checks: bool) -> dict[str, Seen]:
    off = {"checks": {name.replace("_", "-"): on for name, on in checks.items()}}
    return {"a": states.seen(), "b": states.seen(OLD_GCC, **off)}


def test_a_node_that_turns_a_comparison_off_is_left_out_of_it() -> None:
    """Also for the other node: it is compared with none."""
    found = report(_pair())
    assert [each.rule for each in found.hosts["a"].findings] == ["toolchain.gcc-differs"]
    assert [each.fact for each in found.differences] == ["toolchain.gcc"]
    found = report(_pair(**{"toolchain.gcc-differs": False}))
    assert [each.findings for each in found.hosts.values()] == [[], []]
    assert (found.differences, found.exit_code()) == ([], 0)


def test_an_unreadable_value_of_what_is_turned_off_is_no_reason_to_fail() -> None:
    """The report ends with 0: nothing that is judged is unknown."""
    lost = {
        "toolchain": {"versions": None},
        "unreadable": [{"area": "toolchain", "section": "toolchain.versions", "reason": "lost"}],
    }
    nodes = {name: states.seen(lost, checks={"toolchain": False}) for name in ("a", "b")}
    assert report(nodes).exit_code() == 0


LAST = date(2026, 12, 24)
UNTIL = {"until": str(LAST), "reason": "reboot window"}


@pytest.mark.parametrize("name", ["shm.too-small", "shm"])
@pytest.mark.parametrize(("days", "is_off"), [(-1, True), (0, True), (1, False)])
def test_off_until_the_end_of_a_day(name: str, days: int, is_off: bool) -> None:
    """From the next day on the finding counts again, and the entry is named."""
    change = {"shm": {"usage": {"size": 67108864}}}
    wanted = states.wanted({"checks": {name: UNTIL}})
    nodes = Nodes(day=LAST + timedelta(days))
    rules = [each.rule for each in check(states.state(change), wanted, nodes)]
    assert rules == ([] if is_off else ["shm.too-small", "checks.expired"])


def _on(day: date, nodes: dict[str, Seen]) -> Report:
    return report_of("inventories/lab.py", nodes, day=day)


def test_what_is_off_is_in_the_report() -> None:
    """With its entry, its last day and its reason; the day after it is a finding."""
    checks: dict[str, Any] = {"shm": UNTIL, "shm.permissions": False}
    nodes = {"a": states.seen(SMALL, checks=checks)}
    before, after = _on(LAST, nodes), _on(LAST + timedelta(1), nodes)
    assert [(each.rule, each.entry, each.until, each.reason) for each in before.hosts["a"].off] == [
        ("shm.too-small", "shm", LAST, "reboot window"),
        ("shm.permissions", "shm.permissions", None, ""),
    ]
    assert (before.hosts["a"].findings, before.exit_code(), before.summary.off) == ([], 0, 2)
    assert [each.rule for each in after.hosts["a"].findings] == ["shm.too-small", "checks.expired"]
    assert (after.exit_code(), after.summary.off) == (2, 1)
    assert '"until": "2026-12-24"' in written("json", before)


MUTE = {"area": "ssh", "section": "ssh.logins", "reason": "no answer within 5 s"}


@pytest.mark.parametrize(
    ("found", "off", "rules"),
    [
        (SMALL, "shm", ["shm.permissions", "shm.too-small"]),
        ({"unreadable": [MUTE]}, "ssh", ["ssh.unreadable"]),
        (OLD_GCC, "toolchain", ["toolchain.gcc-differs"]),
        (OLD_GCC, "toolchain.gcc-differs", ["toolchain.gcc-differs"]),
        ({}, "driver", []),
    ],
    ids=["rules", "unread", "between", "one between", "nothing found"],
)
def test_whatever_is_off_is_counted(found: dict[str, Any], off: str, rules: list[str]) -> None:
    """Rules of a node, values that could not be read, and what nodes differ in."""
    made = report({"a": states.seen(), "b": states.seen(found, checks={off: False})})
    assert sorted(each.rule for each in made.hosts["b"].off) == rules
    assert (made.hosts["a"].off, made.hosts["b"].findings) == ([], [])
    assert made.summary.off == len(rules)


@pytest.mark.parametrize("width", [40, 100])
def test_the_table_lists_what_is_off(width: int) -> None:
    """A line for each entry, with its nodes; `--full` has each finding; `--only` chooses."""
    both = {"shm": {"until": "9999-12-31", "reason": "ticket 4711"}}
    nodes = {name: states.seen(SMALL, checks=both) for name in ("a-1", "a-2")}
    nodes["b"] = states.seen(SMALL, checks={"shm.permissions": False, "shm": True})
    text = " ".join(concise(nodes, width).split())
    assert "5 findings off by checks in the inventory (not repaired, no failure):" in text
    line = "shm (until 9999-12-31: ticket 4711): 4 findings on a-[1-2]: shm.too-small, "
    assert line in text and "shm.permissions (false): 1 finding on b: shm.permissions" in text
    assert "a-1: shm.too-small: /dev/shm: 64M" in " ".join(drawn(nodes, width).split())
    only = " ".join(concise(nodes, width, only=["shm.permissions"]).split())
    assert "3 findings off" in only and "too-small" not in only.partition("3 nodes")[0]
    lines = concise(nodes, width).splitlines()
    # A command to copy is not folded.
    assert max(len(line) for line in lines if not line.startswith("repair: ")) <= width


def test_without_anything_off_there_is_no_line() -> None:
    """Also where an entry hides nothing."""
    assert " off " not in concise({"a": states.seen(checks={"shm": False})}, 100)


def test_a_part_of_a_report_has_what_is_off_there() -> None:
    """As `--areas` of a deploy chooses it."""
    whole = report({"a": states.seen(SMALL, checks={"shm": False})})
    assert whole.part(["shm"], None).summary.off == 2
    assert whole.part(["limits"], None).summary.off == 0
    console = Console(file=io.StringIO(), width=100)
    assert " off " not in printed(table.render(View(whole.part(["ssh"], None)), 100), console)

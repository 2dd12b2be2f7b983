"""`checks` in the inventory: rules and areas that are turned off are not judged."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_node.drift.engine.check import check
from gpu_node.drift.report.seen import Seen
from tests.drift import states
from tests.drift.reports import report

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

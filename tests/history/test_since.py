"""What is new, gone and changed since an earlier report: a case a report, kept and as a file.

A case: `reports` are nodes, the last report is compared with the first one (of a store, with the
one before it), `asked` are the options of each; the others are what must be found.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from gpu_node.drift.report.change_words import ANSWER, ANSWERED
from gpu_node.drift.report.changes import Changes
from gpu_node.drift.report.model import Report
from gpu_node.history.compare import Key, Known, Node, OfNode, Snapshot, difference, snapshot
from gpu_node.history.since import Before, compared, report_in
from gpu_node.history.store import opened
from gpu_node.history.when import iso
from tests import case_files
from tests.case_files import Case
from tests.commands import REPOSITORY
from tests.drift.reports import written
from tests.history.kept import FIRST, HOUR, INVENTORY, keep, report_of, seen_of

CASES = case_files.cases(Path(__file__).parent / "cases")
SCHEMA = json.loads((REPOSITORY / "drift" / "report" / "report.schema.json").read_text())
WAYS = ("store", "file")


def kept_before(case: dict[str, Any], asked: list[list[str]]) -> Before:
    """Keep all reports but the last one, and return what is known after them."""
    earlier = case["reports"][:-1]
    for number, nodes in enumerate(earlier):
        keep(nodes, number, asked[number])
    with opened() as store:
        found = store.report_at(INVENTORY)
        assert found is not None and found.at == FIRST + (len(earlier) - 1) * HOUR
        return Before("last", iso(found.at), store.known(INVENTORY, found.number))


def written_before(case: dict[str, Any], folder: Path) -> Before:
    """Write the first report as JSON, and read it."""
    file = folder / "report.json"
    file.write_text(written("json", report_of(seen_of(case["reports"][0]))))
    return report_in(str(file))


def report_of_case(case: dict[str, Any], way: str, folder: Path) -> Report:
    """Return the last report of a case, compared with the one before it."""
    asked = case.get("asked", [[] for _ in case["reports"]])
    before = kept_before(case, asked) if way == "store" else written_before(case, folder)
    seen = seen_of(case["reports"][-1])
    report = report_of(seen, len(case["reports"]))
    return compared(report, snapshot(report, frozenset(asked[-1])), before)


# A case about several kept reports has no way by a file.
PAIRS = [(case, way) for case in CASES for way in WAYS if case.data.get("against", way) == way]


@pytest.mark.parametrize(("case", "way"), PAIRS, ids=str)
def test_what_changed(case: Case, way: str, tmp_path: Path) -> None:
    """It is listed, and decides the exit code; the JSON keeps its schema."""
    wanted: dict[str, Any] = dict(case.data)
    report = report_of_case(wanted, way, tmp_path)
    changes = report.changes
    assert changes is not None
    assert (changes.earlier is not None) is wanted.get("comparable", True)
    among = wanted.get("among")
    assert found_in(changes, among) == {
        kind: wanted.get(kind, []) for kind in ("new", "gone", "not_judged")
    }
    facts = [[each.node, each.fact, each.before, each.now] for each in changes.facts]
    assert sorted(facts, key=str) == sorted(wanted.get("facts", []), key=str)
    assert changes.added == wanted.get("added", [])
    assert report.exit_code() == wanted["code"]
    jsonschema.validate(json.loads(written("json", report)), SCHEMA)


def found_in(changes: Changes, among: list[str] | None) -> dict[str, list[list[str]]]:
    """Return the findings of each kind, of all rules or of those that a case is about."""
    found = {
        "new": [[each.node, each.rule, each.subject] for each in changes.new],
        "gone": [[each.node, each.rule, each.subject] for each in changes.gone],
        "not_judged": [[each.node, each.rule, each.why] for each in changes.not_judged],
    }
    return {
        kind: [each for each in listed if among is None or each[1] in among]
        for kind, listed in found.items()
    }


@pytest.mark.parametrize(("asked", "better"), [("a", 0), ("ab", 1)])
def test_beside_fewer_nodes_a_finding_may_be_worth_less(asked: str, better: int) -> None:
    """A login that fails is a warning where the other node is not asked: that is no change."""
    key = Key("ssh.no-login", "a")
    read = {name: Node({ANSWER: ANSWERED}) for name in asked}
    then = {"a": Node({ANSWER: ANSWERED}, {key: Known("error", "", "", nodes=frozenset("ab"))})}
    now = read | {"a": Node({ANSWER: ANSWERED}, {key: Known("warning", "", "")})}
    found = difference(then, Snapshot(now, peers=frozenset("ab")))
    assert (found.better, found.worse) == ([OfNode("a", key)] * better, [])

"""The report as data: JSON by its schema, each node's status, exit codes."""

from __future__ import annotations

import json as stdlib_json
from io import StringIO
from typing import Any

import jsonschema
import pytest
from rich.console import Console

from docs import schema
from gpu_node.drift.report import json
from gpu_node.drift.report.formats import Page
from gpu_node.drift.report.model import Report
from gpu_node.drift.report.problems import problems
from gpu_node.drift.report.seen import Seen
from gpu_node.drift.report.start import start
from gpu_node.drift.report.view import View
from tests.drift import states
from tests.drift.reports import FRESH, KINDS, REFUSED, THREE, report, written


def test_the_schema_is_a_schema() -> None:
    """jsonschema accepts it as 2020-12, and it refuses what is no report."""
    jsonschema.Draft202012Validator.check_schema(schema.schema())
    validator = jsonschema.Draft202012Validator(schema.schema())
    assert not validator.is_valid({})
    whole = stdlib_json.loads(written("json", report(THREE)))
    assert not validator.is_valid({**whole, "schema": 2})
    assert not validator.is_valid({**whole, "more": 1})


@pytest.mark.parametrize("kind", KINDS)
def test_json_validates(kind: str) -> None:
    """Every kind of node, alone and beside another, gives JSON by the shipped schema."""
    shipped = stdlib_json.loads(schema.FILE.read_text())
    for nodes in ({"n": KINDS[kind]}, {"n": KINDS[kind], "m": states.seen()}):
        jsonschema.validate(stdlib_json.loads(written("json", report(nodes))), shipped)


@pytest.mark.parametrize("nodes", [THREE, {}], ids=["three", "none"])
@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_the_parts_of_json_are_one_text(nodes: dict[str, Seen], encoding: str) -> None:
    """The nodes are written one by one; a reader sees what one call would write."""
    found = report(nodes)
    plain = found.model_dump(mode="json", by_alias=True, exclude={"changes"})
    text = written("json", found, encoding=encoding)
    whole = stdlib_json.loads(text)
    assert text == stdlib_json.dumps(whole, indent=2) + "\n"
    assert {key: each for key, each in whole.items() if key in plain} == plain
    assert len(list(json.parts(View(found), Page(Console(file=StringIO()))))) == 2 + len(nodes)


def test_json_has_the_problems_and_where_a_job_can_start() -> None:
    """As the metrics have them; of a report about a job, `head` says what is printed instead."""
    found = report(THREE)
    whole = stdlib_json.loads(written("json", found))
    listed = problems(found.hosts)
    assert [each["id"] for each in whole["problems"]] == [each.id for each in listed]
    assert sum(each["findings"] for each in whole["problems"]) == 4
    assert {each["repair"] for each in whole["problems"]} == {"deploy", "manual"}
    can_start = start(found)
    assert whole["can_start"]["nodes"] == [*can_start.nodes] == []
    assert whole["can_start"]["stopped"].keys() == can_start.stopped.keys() > set()
    assert whole["can_start"]["unknown"]["unreachable"] == ["v100-02"]
    of_job = json.parts(View(found, given="a job"), Page(Console(file=StringIO())))
    assert stdlib_json.loads("".join(of_job))["can_start"] is None


def test_the_secrets_of_a_daemon_json_are_in_no_report() -> None:
    """It may have tokens of proxies and registries; rules need two of its keys."""
    daemon = {
        "kind": "root",
        "pid": 1,
        "path": "/d.json",
        "text": '{"http-proxy": "//u:planted@h"}',
    }
    node = states.seen({"shm": {"docker": {"daemons": [daemon]}}})
    text = written("json", report({"n": node}))
    assert "/d.json" in text and "planted" not in text


def test_json_names_an_error_that_stops_no_job() -> None:
    """Of a rule whose other findings stop jobs; a report that is read again keeps it."""
    low = states.seen({"shm": {"usage": {"size": 6 << 30}}})
    text = written("json", report({"a": low, "b": states.seen(FRESH)}))
    hosts = stdlib_json.loads(text)["hosts"]
    stops = [each["findings"][0].get("stops") for each in hosts.values()]
    assert stops == [False, None]
    assert start(json.WrittenReport.model_validate_json(text)).stopped == {"shm.too-small": ("b",)}


def test_json_uses_the_words_of_the_contract() -> None:
    """Names that users' scripts rely on."""
    whole = stdlib_json.loads(written("json", report(THREE)))
    assert list(whole) == [
        *("schema", "tool", "inventory", "generated", "hosts", "differences", "summary"),
        *("problems", "can_start"),
    ]
    assert whole["schema"] == 1
    host = whole["hosts"]["a100-01"]
    assert set(host) == {"status", "error", "facts", "findings", "off", "slurm_job"}
    assert host["slurm_job"] is None
    assert set(whole["hosts"]["a100-01"]["findings"][0]) == {
        *(
            "rule",
            "severity",
            "subject",
            "found",
            "wanted",
            "cause",
            "fix",
            "fixable",
            "step",
            "root",
        )
    }
    assert set(whole["differences"][0]) == {"fact", "class", "values", "drift"}
    assert whole["summary"] == {
        **{"hosts": 3, "ok": 0, "drift": 1, "unreachable": 1, "unreadable": 1},
        "findings": {"error": 3, "warning": 1, "info": 0},
        "off": 0,
    }
    assert whole["hosts"]["v100-02"] == {
        **{"status": "unreachable", "error": REFUSED, "facts": {}, "findings": [], "off": []},
        "slurm_job": None,
    }


@pytest.mark.parametrize(
    ("kinds", "code"),
    [
        (["ok"], 0),
        (["ok", "ok"], 0),
        (["drift"], 2),
        (["warning"], 2),
        (["ok", "drift"], 2),
        (["unread"], 1),
        (["gone"], 1),
        (["mute"], 1),
        (["ok", "gone"], 1),
        (["drift", "unread"], 1),
        (["drift", "gone"], 1),
        (["drift", "mute"], 1),
    ],
)
def test_exit_codes(kinds: list[str], code: int) -> None:
    """0 none, 2 drift, 1 cannot find out; 1 wins over 2."""
    assert report({f"n{number}": KINDS[kind] for number, kind in enumerate(kinds)}).exit_code() == (
        code
    )


MODE: dict[str, Any] = {
    "shm": {"mode": None},
    "unreadable": [{"area": "shm", "section": "shm.mode", "reason": "no answer within 10 s"}],
}
CLOSED = {"shm": {"mode": {"mode": "0755"}}}
NO_OS: dict[str, Any] = {"toolchain": {"os": None}}


def unmanaged(*changes: dict[str, Any], **data: object) -> Report:
    """Return the report about nodes of whose /dev/shm the inventory says nothing."""
    nodes = [states.seen(change, shm_size=None, **data) for change in changes]
    return report({f"n{number}": node for number, node in enumerate(nodes)})


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        pytest.param([{}, {}], 0, id="nothing"),
        pytest.param([{}, MODE], 1, id="one cannot be read"),
        pytest.param([MODE, MODE], 1, id="none can be read"),
        pytest.param([MODE], 1, id="no other node to compare with"),
        pytest.param([{}, CLOSED], 2, id="two differ"),
        pytest.param([{}, CLOSED, MODE], 1, id="two differ, a third cannot be read"),
        pytest.param([FRESH, MODE], 1, id="drift beside it"),
    ],
)
def test_what_cannot_be_compared_is_unknown(changes: list[dict[str, Any]], code: int) -> None:
    """Unknown is never equal, whatever the inventory names: 1, and 1 wins over 2."""
    found = unmanaged(*changes)
    assert (found.summary.unreadable, found.exit_code()) == (changes.count(MODE), code)
    assert json.WrittenReport.model_validate_json(written("json", found)).exit_code() == code


def test_what_may_differ_need_not_be_read() -> None:
    """An operating system that does not give its name is nothing that nodes must agree on."""
    found = unmanaged({}, NO_OS)
    assert [(each.fact, each.drift) for each in found.differences] == [("toolchain.os", False)]
    assert found.exit_code() == 0


@pytest.mark.parametrize(
    ("kind", "status"),
    [("ok", "ok"), ("drift", "drift"), ("warning", "drift"), ("unread", "unreadable"),
     ("gone", "unreachable"), ("mute", "unreadable")],
)  # fmt: skip
def test_the_status_of_a_node(kind: str, status: str) -> None:
    """A node that could not be read is never ok and never merely drifted."""
    assert report({"n": KINDS[kind]}).hosts["n"].status == status

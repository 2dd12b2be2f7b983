"""The report: JSON by its schema, exit codes, and a table that fits and says it all."""

from __future__ import annotations

import io
import json as stdlib_json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from rich.console import Console

from drift.report import json, table
from drift.report.model import Report, Seen, Tool, build
from tests.drift import states

SNAPSHOT = Path(__file__).with_name("table-80.txt")
FRESH = {
    "shm": {"usage": {"size": 67108864}, "fstab": []},
    "limits": {"session": {"nofile": {"soft": 1024, "hard": 4096}}, "files": []},
}
WARNING: dict[str, Any] = {"shm": {"fstab": []}}
HANGS = {
    "toolchain": {"cmake": None},
    "unreadable": [
        {"area": "toolchain", "section": "toolchain.cmake", "reason": "no answer within 5 s"}
    ],
}
REFUSED = "Could not connect, Connection refused (192.0.2.12:22)"
GONE = Seen(states.wanted({"gpu_model": "V100"}), error=REFUSED, reached=False)
MUTE = Seen(states.wanted(), error="the probe could not run: no output", reached=True)
KINDS = {
    "ok": states.seen(),
    "drift": states.seen(FRESH),
    "warning": states.seen(WARNING),
    "unread": states.seen(HANGS),
    "gone": GONE,
    "mute": MUTE,
}
THREE = {"a100-01": states.seen(FRESH), "v100-01": states.seen(HANGS), "v100-02": GONE}


def report(nodes: dict[str, Seen]) -> Report:
    """Return the report about some nodes, always of the same moment."""
    tool = Tool(name="gpu-node", version="0.1.0")
    return build(nodes, tool, "inventories/lab.py", "2025-09-01T08:00:00+00:00")


def drawn(nodes: dict[str, Seen], width: int) -> str:
    """Return the table as a pipe gets it."""
    console = Console(file=io.StringIO(), width=width)
    table.write(report(nodes), console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_shipped_schema_is_current() -> None:
    """The file beside the code is what the models say; write it anew with schema_text()."""
    assert json.SCHEMA_FILE.read_text() == json.schema_text()


def test_the_schema_is_a_schema() -> None:
    """jsonschema accepts it as 2020-12, and it refuses what is no report."""
    jsonschema.Draft202012Validator.check_schema(json.schema())
    validator = jsonschema.Draft202012Validator(json.schema())
    assert not validator.is_valid({})
    whole = stdlib_json.loads(json.render(report(THREE)))
    assert not validator.is_valid({**whole, "schema": 2})
    assert not validator.is_valid({**whole, "more": 1})


@pytest.mark.parametrize("kind", KINDS)
def test_json_validates(kind: str) -> None:
    """Every kind of node, alone and beside another, gives JSON by the shipped schema."""
    schema = stdlib_json.loads(json.SCHEMA_FILE.read_text())
    for nodes in ({"n": KINDS[kind]}, {"n": KINDS[kind], "m": states.seen()}):
        jsonschema.validate(stdlib_json.loads(json.render(report(nodes))), schema)


def test_json_uses_the_words_of_the_contract() -> None:
    """Names that users' scripts rely on."""
    whole = stdlib_json.loads(json.render(report(THREE)))
    assert list(whole) == [
        *("schema", "tool", "inventory", "generated", "hosts", "differences", "summary")
    ]
    assert whole["schema"] == 1
    assert set(whole["hosts"]["a100-01"]) == {"status", "error", "facts", "findings"}
    assert set(whole["hosts"]["a100-01"]["findings"][0]) == {
        *("rule", "severity", "subject", "found", "wanted", "cause", "fix", "fixable", "step")
    }
    assert set(whole["differences"][0]) == {"fact", "class", "values", "drift"}
    assert whole["summary"] == {
        **{"hosts": 3, "ok": 0, "drift": 1, "unreachable": 1, "unreadable": 1},
        "findings": {"error": 3, "warning": 1, "info": 0},
    }
    assert whole["hosts"]["v100-02"] == {
        **{"status": "unreachable", "error": REFUSED, "facts": {}, "findings": []}
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
    """0 none, 2 drift, 1 could not tell; 1 wins over 2."""
    assert report({f"n{number}": KINDS[kind] for number, kind in enumerate(kinds)}).exit_code() == (
        code
    )


def test_nodes_that_differ_are_drift_even_without_a_finding() -> None:
    """Two A100 nodes with another /dev/shm each, of which the inventory says nothing."""
    larger = states.seen({"shm": {"usage": {"size": 17179869184}}}, shm_size=None)
    found = report({"a100-01": states.seen(None, shm_size=None), "a100-02": larger})
    assert (found.summary.drift, found.exit_code()) == (0, 2)


def test_nodes_that_have_more_than_wanted_are_no_drift() -> None:
    """Two A100 nodes with another /dev/shm each, both as large as wanted: exit 0."""
    larger = states.seen({"shm": {"usage": {"size": 17179869184}}})
    found = report({"a100-01": states.seen(), "a100-02": larger})
    assert (found.summary.drift, found.exit_code()) == (0, 0)


@pytest.mark.parametrize(
    ("kind", "status"),
    [("ok", "ok"), ("drift", "drift"), ("warning", "drift"), ("unread", "unreadable"),
     ("gone", "unreachable"), ("mute", "unreadable")],
)  # fmt: skip
def test_the_status_of_a_node(kind: str, status: str) -> None:
    """A node that could not be read is never ok and never merely drifted."""
    assert report({"n": KINDS[kind]}).hosts["n"].status == status


def _many() -> dict[str, Seen]:
    return {f"gpu-{number:02}.cluster": states.seen(FRESH) for number in range(9)}


@pytest.mark.parametrize("width", [80, 160])
@pytest.mark.parametrize("nodes", [THREE, KINDS, _many()], ids=["three", "kinds", "many"])
def test_the_table_fits_and_says_it_all(nodes: dict[str, Seen], width: int) -> None:
    """No line is longer than the terminal; every node, rule, found and error is there."""
    text = drawn(nodes, width)
    assert max(map(len, text.splitlines())) <= width
    words = " ".join(text.split())
    for name, host in report(nodes).hosts.items():
        assert name in words
        for finding in host.findings:
            assert finding.rule in words
        assert host.error is None or host.error in words


def test_a_pipe_gets_no_escape_codes() -> None:
    """Colour is for terminals."""
    assert "\x1b" not in drawn(THREE, 80)


def test_a_terminal_gets_colour_and_the_same_words() -> None:
    """What colour says is said by a sign as well."""
    console = Console(file=io.StringIO(), width=80, force_terminal=True, color_system="standard")
    table.write(report(THREE), console)
    assert isinstance(console.file, io.StringIO)
    assert "\x1b[" in console.file.getvalue()
    assert f"64M {table.WRONG}" in drawn(THREE, 80)


def test_words_of_a_node_are_no_markup() -> None:
    """What a node says in brackets is printed, not taken for a style."""
    strange = {
        "toolchain": {"os": "[bold]OS[/bold]", "cmake": None},
        "unreadable": [{"area": "toolchain", "section": "toolchain.cmake", "reason": "[/red] :x:"}],
    }
    text = drawn({"n": states.seen(strange)}, 120)
    assert "[bold]OS[/bold]" in text
    assert "[/red] :x:" in text


def test_the_table_is_as_recorded() -> None:
    """A look at the whole; after a wanted change write the file anew from drawn(THREE, 80)."""
    lines = [line.rstrip() for line in drawn(THREE, 80).splitlines()]
    assert lines == SNAPSHOT.read_text().splitlines()


@pytest.mark.parametrize(
    ("nodes", "last"),
    [
        ({"n": KINDS["ok"]}, "1 node, 1 ok; findings: none"),
        ({"n": KINDS["ok"], "m": KINDS["ok"]}, "2 nodes, 2 ok; findings: none"),
        ({"n": KINDS["ok"], "m": GONE}, "2 nodes, 1 ok, 1 unreachable; findings: none"),
    ],
)
def test_a_report_without_findings_ends_with_its_summary(nodes: dict[str, Seen], last: str) -> None:
    """Nothing to repair is proposed, and the count of each status is said."""
    assert drawn(nodes, 80).splitlines()[-1].rstrip() == last


def test_what_only_hands_can_repair_is_not_proposed_to_the_deploy() -> None:
    """No line `repair: pyinfra ...` where it would repair nothing."""
    closed = {"shm": {"usage": {"size": 67108864}, "container": {"can_mount": False}}}
    text = drawn({"n": states.seen(closed)}, 80)
    assert "shm.container" in text
    assert "repair:" not in text
    assert "repair: pyinfra inventories/lab.py" in drawn({"n": KINDS["warning"]}, 80)

"""One test per case file, preflight/ABOUT/CASE.yml: a server, and every row that is not ok."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from gpu_node.drift.preflight import Newcomer, Row, judge, judged
from gpu_node.drift.report.preflight import table
from gpu_node.facts.preflight.reachability import MemberState
from gpu_node.facts.preflight.state import NewcomerState
from gpu_node.facts.probe.peers import peers
from gpu_node.inventories.schema import NodeWanted
from tests import case_files
from tests.drift import states

HERE = Path(__file__).parent / "preflight"
BASE: dict[str, Any] = case_files.load((HERE / "base.yml").read_text())
FILES = sorted(HERE.glob("*/*.yml"))


def _name(path: Path) -> str:
    return f"{path.parent.name}/{path.stem}"


def _rows(case: Mapping[str, Any]) -> list[Row]:
    """The rows about the base's server with a case's changes; a member may be a reason alone."""
    driver, links = states.BASE["found"]["driver"], states.BASE["found"]["network"]["links"]
    healthy = states.merged({"driver": driver, "network": {"links": links}}, BASE["found"])
    server = states.merged(BASE["newcomer"], case.get("newcomer", {}))
    members = states.merged(BASE["members"], case.get("members", {}))
    wanted = states.merged(BASE["wanted"], case.get("wanted", {}))
    assert isinstance(server, dict)
    assert isinstance(members, dict)
    assert isinstance(wanted, dict)
    keys = {name: tuple(each) for name, each in server["pinned"].items()}
    here = server["here"] if server["here"] is None else tuple(server["here"])
    newcomer = Newcomer(
        **{**server, "nodes": peers(server["nodes"]), "pinned": keys, "here": here}
        | {"host_keys": tuple(server["host_keys"])}
    )
    return judged(
        NewcomerState.model_validate(states.merged(healthy, case.get("found", {}))),
        {
            name: each if isinstance(each, str) else MemberState.model_validate(each)
            for name, each in members.items()
            if each is not None
        },
        newcomer,
        NodeWanted.from_data(wanted),
    )


def test_a_server_that_is_right_goes_on() -> None:
    """The control: every row is ok, and each thing is looked at once."""
    rows = _rows({})
    assert [row for row in rows if row.verdict != "ok"] == []
    subjects = [row.subject for row in rows]
    assert len(subjects) == len(set(subjects))


@pytest.mark.parametrize("path", FILES, ids=_name)
def test_rows(path: Path) -> None:
    """The rows of a case that are not ok, and no other; `says` is in why or fix."""
    text = path.read_text()
    assert text.startswith("# ")
    case = case_files.load(text)
    assert case.keys() <= {"found", "members", "newcomer", "wanted", "rows", "ok"}
    rows = _rows(case)
    wrong = [row for row in rows if row.verdict != "ok"]
    keys = ("subject", "found", "verdict")
    shown = [{key: getattr(row, key) for key in keys} for row in wrong]
    assert shown == [{key: each[key] for key in keys} for each in case["rows"]]
    for row, each in zip(wrong, case["rows"], strict=True):
        assert each.get("says", "") in f"{row.why} {row.fix}"
        assert row.why
    right = {row.subject: row.found for row in rows if row.verdict == "ok"}
    assert {subject: right.get(subject) for subject in case.get("ok", {})} == case.get("ok", {})


def test_what_could_not_be_read_is_never_ok() -> None:
    """Each fact that is missing costs its row the ok, and the fact is named with the reason."""
    for field in NewcomerState.model_fields:
        if field in ("packages", "driver", "network", "unreadable"):
            continue
        rows = _rows({"found": {field: None}})
        assert any(row.verdict != "ok" for row in rows), field
        assert any("unknown" in row.found for row in rows), field


@pytest.mark.parametrize("width", [80, 160])
def test_the_table_fits_and_says_it_all(width: int) -> None:
    """Without colour the words tell the verdict; what a server says steers no terminal."""
    rows = [
        *_rows({"found": {"space": []}}),
        Row("[bold]\x1b[31m", "x" * 200, "stop", "why", "fix"),
    ]
    console = Console(file=io.StringIO(), width=width)
    console.print(table(rows))
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    assert max(map(len, text.splitlines())) <= width
    assert "\x1b" not in text
    assert "[bold]" in text
    for row in rows[:-1]:
        assert row.subject in text
    assert text.splitlines()[-1].endswith("1 stop; nothing was changed")


def test_a_member_that_cannot_be_judged_gave_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server is judged beside the others, and the reason names the one that failed."""
    before = judge._judged
    name = next(iter(BASE["members"]))

    def broken(found: Any, members: Mapping[str, Any], *more: Any) -> list[Row]:
        if isinstance(members.get(name), MemberState):
            raise OverflowError("too large")
        return before(found, members, *more)

    silent = _rows({"members": {name: "its answer is not understood: OverflowError: too large"}})
    monkeypatch.setattr(judge, "_judged", broken)
    assert _rows({}) == silent


def test_a_server_that_cannot_be_judged_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a row of the table, with the reason."""

    def broken(*of: Any) -> list[Row]:
        raise OverflowError("too large")

    monkeypatch.setattr(judge, "_judged", broken)
    [row] = _rows({})
    assert (row.verdict, row.found) == ("stop", "unknown: OverflowError: too large")

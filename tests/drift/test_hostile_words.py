"""A report of a node that chose every word of its answer: nothing of it steers, hides or marks."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from gpu_node.cli.console import show
from gpu_node.deploy.console import UserConsole
from gpu_node.drift.report import json as as_json
from gpu_node.drift.report import table
from gpu_node.drift.report.model import Report
from gpu_node.inventories.escape import visible
from gpu_node.onboarding import run
from gpu_node.verify.outcome import Outcome, Row
from gpu_node.verify.table import render
from tests.drift import reports

HOSTILE = "[red]x[/red][/]:warning:\x1b]0;owned\x07\x9b2J\u202e\u200b\r\n\udcff"
WORDS = ("subject", "found", "wanted", "cause", "fix")
KINDS = {**reports.KINDS, "mute": replace(reports.MUTE, error=HOSTILE)}


def hostile(value: Any, words: str = HOSTILE) -> Any:
    """Put the hostile words behind every text."""
    if isinstance(value, str):
        return f"{value}{words}"
    if isinstance(value, dict):
        return {each: hostile(inner, words) for each, inner in value.items()}
    return [hostile(each, words) for each in value] if isinstance(value, list) else value


def worst(report: Report, words: str = HOSTILE) -> Report:
    """Return a report whose findings, values and errors end in the hostile words."""
    data = report.model_dump(mode="json", by_alias=True)
    for host in data["hosts"].values():
        for finding in host["findings"]:
            finding.update({key: hostile(finding[key], words) for key in WORDS})
    for difference in data["differences"]:
        difference["fact"] += words
        difference["values"] = hostile(difference["values"], words)
    return Report.model_validate(data)


def assert_plain(text: str) -> None:
    """Assert that a text has no character that steers or hides, and has the brackets as text."""
    assert all(visible(line) == line for line in text.split("\n"))
    assert r"\x1b]0;owned\x07\x9b2J\u202e\u200b\r\n\udcff" in text
    assert "[red]x[/red][/]:warning:" in text


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_the_table(kind: str) -> None:
    """Cells, findings, differences and errors."""
    report = worst(reports.report({"a100-01": KINDS[kind], "v100-01": KINDS["drift"]}))
    console = Console(file=io.StringIO(), width=4000)
    console.print(table.render(report, console.width))
    assert isinstance(console.file, io.StringIO)
    assert_plain(console.file.getvalue())


def test_json() -> None:
    """It means the same, but for half surrogates, which no parser need take."""
    text = as_json.render(worst(reports.report(KINDS)))
    assert all(visible(line) == line for line in text.split("\n"))
    found = json.loads(text)
    assert found["hosts"]["mute"]["error"] == HOSTILE.replace("\udcff", r"\udcff")
    text.encode("utf-8")


def test_a_verification(capsys: pytest.CaptureFixture[str]) -> None:
    """Its rows, problems and notes are what ranks wrote."""
    row = Row("v100-01", ranks=HOSTILE, device=HOSTILE, network=HOSTILE, torch=HOSTILE)
    show(render(Outcome(False, (row,), problems=(HOSTILE,), notes=(HOSTILE,))))
    folded = capsys.readouterr().out
    assert all(visible(line) == line for line in folded.split("\n"))
    assert "[red]x[/red][/]" in folded


def test_an_onboarding(capsys: pytest.CaptureFixture[str]) -> None:
    """Stages, lines, results and the table at its end."""
    console = UserConsole()
    console.say(HOSTILE)
    console.stage("report", HOSTILE)
    console.show(HOSTILE)
    console.show(run._table({"v100-02": [HOSTILE], "v100-03": []}, {"v100-03": HOSTILE}))
    console.print(f"+ {HOSTILE}\n")
    done = capsys.readouterr()
    for text in (done.out, done.err):
        assert all(visible(line) == line for line in text.split("\n"))
        assert "[red]x[/red][/]:warning:" in text

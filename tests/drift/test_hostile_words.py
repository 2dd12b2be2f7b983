"""A report of a node that chose every word of its answer: nothing of it steers, hides or marks."""

from __future__ import annotations

import pytest

from gpu_node.cli.console import show
from gpu_node.deploy.console import UserConsole
from gpu_node.inventories.escape import visible
from gpu_node.onboarding import run
from gpu_node.verify.outcome import Outcome, Row
from gpu_node.verify.table import render

HOSTILE = "[red]x[/red][/]:warning:\x1b]0;owned\x07\x9b2J\u202e\u200b\r\n\udcff"


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

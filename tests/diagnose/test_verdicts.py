"""What a log is: a failure, one from which the job recovered, or healthy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpu_node.diagnose.answer import diagnose
from gpu_node.diagnose.report import render
from gpu_node.diagnose.sources import Log
from gpu_node.drift.report.formats import plain, printed
from tests.case_files import load

CASES: dict[str, dict[str, Any]] = load((Path(__file__).parent / "verdicts.yml").read_text())


@pytest.mark.parametrize("name", CASES)
def test_the_verdict(name: str) -> None:
    """And the first cause, its side and what it says.

    `then` lines follow without a failure. `shows` has texts that are printed.
    """
    case = CASES[name]
    after = "".join(f"line {number}\n" for number in range(case.get("then", 0)))
    answer = diagnose([Log("train.log", None, data=(case["log"] + after).encode())])
    assert answer.verdict == case["verdict"]
    shown = " ".join(printed(render(answer, None), plain(width=1000)).split())
    assert [text for text in case.get("shows", ()) if text not in shown] == []
    lines = [each.evidence for each in answer.candidates]
    assert [len({*each}) for each in lines] == [*map(len, lines)]  # each line once
    if "cause" in case:
        first = answer.candidates[0]
        assert first.cause.name == case["cause"]
        assert first.cause.side == case.get("side", first.cause.side)
        assert first.says == case.get("says", first.says)
        assert first.confidence == case.get("confidence", first.confidence)

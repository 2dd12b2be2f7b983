"""How far the patterns reach: a line that a program prints names its cause, alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpu_node.diagnose.answer import diagnose
from gpu_node.diagnose.sources import Log
from tests.case_files import load

HERE = Path(__file__).parent
# A list of lines for each cause: what starts and is installed, what talks, what dies.
LINES: list[tuple[str, list[str]]] = [
    each for path in sorted(HERE.glob("reach*.yml")) for each in load(path.read_text()).items()
]


@pytest.mark.parametrize(("name", "lines"), LINES)
def test_a_line_names_its_cause(name: str, lines: list[str]) -> None:
    """First, whatever else the line could mean."""
    named = {line: diagnose([Log("log", None, data=line.encode())]) for line in lines}
    wrong = {
        line: [each.cause.name for each in answer.candidates]
        for line, answer in named.items()
        if [each.cause.name for each in answer.candidates][:1] != [name]
    }
    assert wrong == {}

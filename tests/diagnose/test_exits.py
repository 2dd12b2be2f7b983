"""How a process ended: each reporter's line for each row of ends names its cause."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from gpu_node.diagnose.answer import diagnose
from gpu_node.diagnose.cause import causes, table
from gpu_node.diagnose.sources import Log
from tests.case_files import load

TABLE: dict[str, Any] = table("exits")
FORMS: list[str] = load((Path(__file__).parent / "exits.yml").read_text())
WORD = re.compile("NAME|NUMBER|NEGATIVE|CODE|WORDS")
NEVER = [(each["has"], each["never"]) for each in TABLE["reporters"] if "never" in each]


def filled(form: str, end: dict[str, Any]) -> str:
    """Return a line with the words of a row."""
    return WORD.sub(lambda word: str(end[word[0]]), form)


FILLED = [
    (filled(form, end), end["cause"])
    for form in FORMS
    for end in TABLE["ends"]
    if {*WORD.findall(form)} <= {*end}
    and not any(has in form and end.get("NAME") == name for has, name in NEVER)
]


@pytest.mark.parametrize(("line", "cause"), FILLED)
def test_an_end_names_the_cause_of_its_row(line: str, cause: str) -> None:
    """After a step, alone in a log; of a consequence no cause is named."""
    answer = diagnose([Log("log", None, data=f"step 7 loss 2.31\n{line}".encode())])
    is_consequence = causes()[cause].level == "consequence"
    assert [each.cause.name for each in answer.candidates[:1]] == [cause] * (not is_consequence)
    assert answer.verdict == ("not decidable" if is_consequence else "cause")


def test_each_reporter_has_a_line() -> None:
    """Of the signal that ends a process without a word."""
    lines = [line for line, cause in FILLED if cause == "killed-without-message"]
    patterns = causes()["killed-without-message"].patterns
    silent = [
        each.line for each in patterns if not any(re.search(each.line, line) for line in lines)
    ]
    assert silent == []

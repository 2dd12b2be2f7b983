"""What exceptions mean whose text no pattern knows, by their class and by what raised them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gpu_node.diagnose.answer import EXCEPTION, diagnose
from gpu_node.diagnose.cause import causes, exceptions
from gpu_node.diagnose.sources import Log
from tests.case_files import load

CASES: dict[str, list[dict[str, str]]] = load((Path(__file__).parent / "raised.yml").read_text())
TRACEBACK = """Traceback (most recent call last):
  File "/home/u/train.py", line 10, in <module>
    main()
  File "/opt/env/lib/python3.11/site-packages/{file}", line 88, in quux
    quux()
{text}
"""


def named(text: str, file: str) -> list[tuple[str, str]]:
    """Return the causes of a traceback, and how sure they are."""
    log = TRACEBACK.format(text=text, file=file).encode()
    return [
        (each.cause.name, each.confidence)
        for each in diagnose([Log("log", None, data=log)]).candidates
    ]


@pytest.mark.parametrize("cause", CASES)
def test_an_exception_means_a_cause(cause: str) -> None:
    """With confidence low; a consequence is none."""
    means = [(cause, "low")] * (causes()[cause].level != "consequence")
    assert {str(each): named(**each) for each in CASES[cause]} == {
        str(each): means for each in CASES[cause]
    }


def test_another_exception_is_of_the_program() -> None:
    """Also where a library raises it."""
    assert named("KeyError: 'quux'", "torch/nn/modules/module.py") == [(EXCEPTION, "medium")]


def test_each_row_has_a_case() -> None:
    """Of its class, and of its file."""
    cases = [
        (cause, each["text"], f"-packages/{each['file']}")
        for cause in CASES
        for each in CASES[cause]
    ]
    rows = [
        each.line
        for each in exceptions()
        if not any(
            cause == each.cause and re.match(each.line, text) and re.search(each.file, file)
            for cause, text, file in cases
        )
    ]
    assert rows == []

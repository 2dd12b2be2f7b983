"""The objects of errors: an error whose message no pattern knows means a cause by what it names."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpu_node.diagnose.answer import diagnose
from gpu_node.diagnose.cause import PROGRAM, causes, emitters, meanings, speakers
from gpu_node.diagnose.origin import split
from gpu_node.diagnose.sources import Log
from tests.case_files import load

LINES: dict[str, dict[str, list[str]]] = load((Path(__file__).parent / "objects.yml").read_text())
EACH = [
    pytest.param(emitter, thing, line, id=line)
    for emitter, objects in LINES.items()
    for thing, lines in objects.items()
    for line in lines
]


@pytest.mark.parametrize(("emitter", "thing", "line"), EACH)
def test_a_line_means_the_cause_of_its_object(emitter: str, thing: str, line: str) -> None:
    """With confidence low, and without a pattern that names it; of a consequence none is named."""
    (cause,) = {each.cause for each in meanings() if each.object == thing and emitter in each.of}
    answer = diagnose([Log("log", None, data=line.encode())])
    named = [(each.cause.name, each.confidence) for each in answer.candidates]
    assert named == [(cause, "low")] * (causes()[cause].level != "consequence")
    assert answer.verdict == ("cause" if named else "not decidable")


def test_each_pair_has_a_line() -> None:
    """For each of its emitters, all of which there are."""
    pairs = {(of, each.object) for each in meanings() for of in each.of}
    assert pairs == {(of, thing) for of, objects in LINES.items() for thing in objects}
    assert {of for of, _ in pairs} <= {PROGRAM, *(each.name for each in emitters())}
    assert {each.cause for each in meanings()} <= causes().keys()


def test_each_level_has_a_line() -> None:
    """Of any program."""
    lines = [line for lines in LINES[PROGRAM].values() for line in lines]
    silent = [
        each.has
        for each in speakers()
        if each.name == PROGRAM and not any(each.speaks(line, split(line)[0]) for line in lines)
    ]
    assert silent == []

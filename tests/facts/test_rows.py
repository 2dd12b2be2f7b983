"""Rows of facts/AREA/readings.yml: what they ask, what they read, and what is refused."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, ClassVar

import pytest
from pydantic import ValidationError

from gpu_node.facts.node import AREA_FACTS
from gpu_node.facts.probe import base
from gpu_node.facts.probe.protocol import render
from gpu_node.facts.probe.request import ProbeRequest
from gpu_node.facts.probe.rows import Row, rows_of
from tests.shells import as_lines, at_an_empty_home, run

NUMBER: dict[str, Any] = {"file": "/proc/x", "type": "number", "healthy": "7"}
ROWS = [row for area in AREA_FACTS for row in rows_of(area)]


def row(**change: Any) -> Row:
    return Row.model_validate({"name": "x_y", "area": "network", **NUMBER, **change})


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"file": ""}, "String should match pattern '^/'"),
        ({"file": "proc/x"}, "String should match pattern '^/'"),
        ({"file": ["/proc/x", "y"]}, "String should match pattern '^/'"),
        ({"absent": "unknown"}, "Input should be 'unreadable' or 'normal'"),
        ({"type": "int"}, "Input should be 'number' or 'text'"),
        ({"healthy": "many"}, "not a number: 'many'"),
        ({"most": 6}, "not 0 to 6: 7"),
        ({"unit": "KiB"}, "Extra inputs are not permitted"),
        ({"name": "x-y"}, "a name has small letters, digits and _ alone"),
    ],
)
def test_a_row_that_is_wrong(change: dict[str, Any], words: str) -> None:
    """It is refused as the rows are read; without the change it is right."""
    assert row().read("7\n") == 7
    with pytest.raises(ValidationError, match=re.escape(words)):
        row(**change)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "x: {file: /proc/x, type: number, healthy: 7}",
            "x: healthy: found 7; allowed: a text, in",
        ),
        ("x-y: {file: /proc/x, type: number, healthy: '7'}", "x-y: a name has small letters"),
    ],
)
def test_a_mistake_in_the_file_is_named(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "host").mkdir()
    (tmp_path / "host" / "readings.yml").write_text(text)
    with pytest.raises(ValueError, match=f"/host/readings.yml: {words}"):
        rows_of("host", tmp_path)


@pytest.mark.parametrize(
    ("change", "text", "value"),
    [
        ({}, "8\n", 8),
        ({"least": -1}, "-1", -1),
        ({"type": "text"}, " a b\n", "a b"),
        ({"absent": "normal"}, "", None),
        ({"file": ["/proc/x", "/sys/y"], "type": "text"}, "a\nb c \n", "a b c"),
    ],
)
def test_what_is_read(change: dict[str, Any], text: str, value: object) -> None:
    assert row(**change).read(text) == value


@pytest.mark.parametrize("text", ["", "-1", "99999999999999999999", "7 8", "7x"])
def test_what_is_not_a_number(text: str) -> None:
    """An answer of a node that lies, or of another kernel, is no value."""
    with pytest.raises(ValueError, match="not "):
        row().read(text)


def test_a_file_that_is_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its row it is unreadable, or normal; a value that is there has its field."""
    (tmp_path / "there").write_text("7\n")
    made = tuple(
        row(name=name, file=str(tmp_path / name), absent=absent)
        for name, absent in (("there", "normal"), ("gone", "unreadable"), ("none", "normal"))
    )
    monkeypatch.setattr(base, "rows_of", lambda area: made)

    class Own(base.State):
        there: int | None = None

    class Area(base.AreaFact):
        state: ClassVar[type[base.State]] = Own

    fact = Area()
    output = run("dash", fact.script_for(ProbeRequest()), env=at_an_empty_home()).stdout
    values = fact.parsed(as_lines(output))
    assert values.pop("unreadable").keys() == {"network.gone"}
    assert values == {"there": 7, "gone": None, "none": None}


@pytest.mark.parametrize("named", ROWS, ids=lambda row: f"{row.area}.{row.name}")
def test_each_row_is_asked_and_has_its_place(named: Row) -> None:
    """The probe asks it, and the state has its field."""
    fact = AREA_FACTS[named.area]
    assert named.section.name in {each.name for each in fact().sections_for(ProbeRequest())}
    assert named.section.name in render(fact.sections) and named.name in fact.state.model_fields

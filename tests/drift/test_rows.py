"""Rows of rules.yml and shown.yml: each has one function, and what does not fit is refused."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from graphlib import CycleError
from pathlib import Path

import pytest
import yaml
from pydantic import ValidationError

from gpu_node.drift.engine import registry, rows, rule, shown_facts
from gpu_node.drift.engine.fact import Row, shows
from gpu_node.drift.engine.rows import has_key
from gpu_node.drift.engine.rule import RULES, At, Fault, check
from gpu_node.facts import row_files
from tests.drift import states
from tests.drift.stub import ROW, stub


def nothing(at: At) -> Iterator[Fault]:
    yield from ()


@pytest.mark.parametrize(
    ("rule_id", "why"),
    [("shm.nowhere", "rules.yml has no such row"), ("shm.too-small", "two functions check it")],
)
def test_a_function_has_one_row(rule_id: str, why: str) -> None:
    with pytest.raises(ValueError, match=f"{rule_id}: {why}"):
        check(rule_id)(nothing)


def test_a_row_has_a_function(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "rows", lambda area: {f"{area}.nowhere": {}})
    with pytest.raises(ValueError, match=r"no function checks these rows: .*'shm\.nowhere'"):
        registry._in_order()


def test_a_cause_is_a_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    named = stub("shm.too-small", nothing, explained_by=["shm.nowhere"])
    monkeypatch.setitem(rule.RULES, "shm.too-small", named)
    with pytest.raises(ValueError, match=r"a row names what is no rule: .*shm\.nowhere"):
        registry._in_order()


def test_causes_have_no_circle(monkeypatch: pytest.MonkeyPatch) -> None:
    named = stub("shm.above-memory", nothing, explained_by=[{"peer": "shm.too-small"}])
    assert "shm.above-memory" in RULES["shm.too-small"].causes
    monkeypatch.setitem(rule.RULES, "shm.above-memory", named)
    with pytest.raises(CycleError):
        registry._in_order()


@pytest.mark.parametrize(
    ("name", "why"),
    [("shm.nowhere", "shown.yml has no such row"), ("shm.size", "two functions return it")],
)
def test_a_function_has_one_row_of_a_fact(name: str, why: str) -> None:
    with pytest.raises(ValueError, match=f"{name}: {why}"):
        shows(name)(lambda node: None)


def test_a_fact_has_a_path_or_a_function(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shown_facts, "rows", lambda area, file: {f"{area}.nowhere": {}})
    with pytest.raises(ValueError, match=r"no path and no function .*'shm\.nowhere'"):
        shown_facts._in_order()


@pytest.mark.parametrize("key", ["marked_by", "explained_by", "rule"])
def test_a_fact_names_rules(monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    row = Row.model_validate({key: "shm.nowhere" if key == "rule" else ["shm.nowhere:/dev/shm"]})
    monkeypatch.setattr(registry, "FACTS", (replace(shown_facts.FACTS[0], row=row),))
    with pytest.raises(ValueError, match=r"a row names what is no rule: .*shm\.nowhere"):
        registry._in_order()


def test_a_fact_has_a_severity_of_its_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another would break the judgement of each node that differs."""
    row = Row.model_validate({"rule": "shm.differs", "same": "everywhere", "severity": "info"})
    monkeypatch.setattr(registry, "FACTS", (replace(shown_facts.FACTS[0], row=row),))
    with pytest.raises(ValueError, match="severity: found info; allowed: warning, as in"):
        registry._in_order()


def test_a_fact_names_facts_and_keys() -> None:
    """The one that it follows, and the key that settles it, which the inventory of base.yml has."""
    names = {fact.name for fact in shown_facts.FACTS}
    assert {fact.row.follows for fact in shown_facts.FACTS} <= {"", *names}
    keys = {fact.row.managed for fact in shown_facts.FACTS} - {""}
    assert keys and all(has_key(states.wanted(), key) for key in keys)


@pytest.mark.parametrize("row", [{"smae": "everywhere"}, {"same": "in part"}])
def test_a_row_of_a_fact_has_no_other_key_or_word(row: dict[str, str]) -> None:
    with pytest.raises(ValidationError):
        Row.model_validate(row)


@pytest.mark.parametrize("row", [{"severty": "info"}, {"severity": "fatal"}, {"when": "raining"}])
def test_a_row_has_no_other_key_or_word(row: dict[str, str]) -> None:
    with pytest.raises(ValidationError):
        stub("shm.nowhere", nothing, **row)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (
            "severty: info",
            "severty: no such key; allowed: checks, severity, needs, when, judged_on, repaired, "
            "stops, spares, bars, reads, explained_by, under, explains_unread, why, manual, who, "
            "repair, without_root, in_container, relation, id, check",
        ),
        ("severity: fatal", "severity.0: found 'fatal'; allowed: 'error', 'warning' or 'info'"),
        ("repaired: {step: shm}", "repaired.step: no such key; allowed: steps, key"),
        ("why: 5", "why: found 5; allowed: a text, in quotes"),
        (
            "relation: {of: limits.nr_open, is: at_least, wanted: x}",
            "relation.is: found 'at_least'; allowed: 'present', 'absent', 'equals', 'at-least', "
            "'at-most', 'one-of' or 'none-of'",
        ),
        ("relation: {of: limits.nr_open, is: present}", "relation.wanted: Field required"),
        (
            "relation: {of: limits.nr_opne, is: present, wanted: x}",
            "relation: of: limits.nr_opne: no nr_opne in the state of a node",
        ),
    ],
)
def test_a_mistake_in_a_row_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: str, words: str
) -> None:
    """By its file, its rule, its key, and what that takes; without it the row is right."""
    area = tmp_path / "drift" / "shm"
    area.mkdir(parents=True)
    monkeypatch.setattr(rows, "folder", lambda name: area)
    monkeypatch.setattr(rows, "rows", rows.rows.__wrapped__)
    keys = yaml.safe_dump(ROW | yaml.safe_load(wrong), default_flow_style=True)
    (area / "rules.yml").write_text(f"shm.it: {keys}")
    monkeypatch.setattr(rule, "RULES", {})
    with pytest.raises(ValueError, match=re.escape(f"drift/shm/rules.yml: shm.it: {words}") + "$"):
        check("shm.it")(nothing)
    (area / "rules.yml").write_text(f"shm.it: {yaml.safe_dump(ROW, default_flow_style=True)}")
    assert check("shm.it")(nothing).checks == "It."


def test_a_mistake_in_a_row_of_a_fact_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "rows", lambda area, file: {"shm.it": {"same": "in part"}})
    words = r"drift/shm/shown\.yml: shm\.it: same: found 'in part'; allowed: '', 'everywhere' or"
    with pytest.raises(ValueError, match=words):
        shows("shm.it")(lambda node: None)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        # PyYAML takes the last one.
        ("a.b: {why: x, why: y}", 'rules.yml", line 1'),
        ("a.b:\n", "rules.yml: a.b: found None; allowed: a mapping"),
    ],
)
def test_a_file_of_rows_that_is_wrong(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "rules.yml"
    path.write_text(text)
    with pytest.raises(ValueError, match=re.escape(words)):
        row_files.load(path)

"""Rows of rules.yml and shown.yml: each has one function, and what does not fit is refused."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from graphlib import CycleError

import pytest
import yaml
from pydantic import ValidationError

from gpu_node.drift.engine import registry, rows, rule, shown_facts
from gpu_node.drift.engine.fact import Row, shows
from gpu_node.drift.engine.rows import has_key
from gpu_node.drift.engine.rule import RULES, At, Fault, check
from tests.drift import states
from tests.drift.stub import stub


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
    with pytest.raises(ValueError, match=r"shm\.differs does not declare its severity"):
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


def test_a_key_that_is_there_twice_is_refused() -> None:
    """PyYAML takes the last one."""
    with pytest.raises(ValueError, match="twice"):
        yaml.load("a.b: {why: x, why: y}", Loader=rows._Loader)  # noqa: S506

"""Rules that are a relation over one value: where it holds, and what a finding says."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

import pytest
from pydantic import ValidationError

from gpu_node.drift.engine.registry import RULES
from gpu_node.drift.engine.relation import Relation
from tests.drift import states


def test_a_rule_has_a_relation_or_a_function() -> None:
    """A function beside a relation would hide it."""
    related = [rule for rule in RULES.values() if rule.relation is not None]
    assert [rule.id for rule in related if not isinstance(rule.check, partial)] == []
    assert len(related) >= 3


@pytest.mark.parametrize(
    ("row", "value", "found"),
    [
        ({"is": "present"}, "x", None),
        ({"is": "present", "found": "none"}, "", "none"),
        ({"is": "absent"}, "", None),
        ({"is": "absent", "found": "has {}"}, "x", "has x"),
        ({"is": "equals", "to": 1048576}, 1048576, None),
        ({"is": "equals", "to": 1048576}, 4096, "4096"),
        ({"is": "at-least", "to": 4096}, 4096, None),
        ({"is": "at-least", "to": 4096}, 4095, "4095"),
        ({"is": "at-most", "to": 4096}, 4096, None),
        ({"is": "at-most", "to": 4096}, 4097, "4097"),
        ({"is": "one-of", "to": ["yum", "dnf"]}, "dnf", None),
        ({"is": "one-of", "to": ["yum", "dnf"]}, "none", "none"),
        ({"is": "none-of", "to": ["yum", "dnf"]}, "apt", None),
        ({"is": "none-of", "to": ["yum", "dnf"]}, "dnf", "dnf"),
        ({"is": "at-least", "to": 4096}, None, None),  # not read: that is a finding already
    ],
)
def test_a_relation(row: dict[str, Any], value: Any, found: str | None) -> None:
    """What breaks it is shown as its row says."""
    of = "host.machine_id" if isinstance(value, str) else "limits.nr_open"
    area, name = of.split(".")
    node = states.state({area: {name: value}})
    relation = Relation.model_validate({"of": of, "subject": "it", "wanted": "right", **row})
    expected = [] if found is None else [("it", found, "right")]
    assert [(str(about), *words) for about, *words in relation.broken(node)] == expected


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"of": "limits.nr_opne"}, "no nr_opne in the state of a node"),
        ({"of": "limits.nr_open.soft"}, "no soft in the state of a node"),
        ({"of": "limits.session.memlock.hard"}, "is not always a number: 'unlimited', int"),
        ({"of": "toolchain.kernel"}, "is not always a number: str"),
        ({"to": "4K"}, "to: '4K' is not a number"),
    ],
)
def test_a_relation_that_no_value_has(row: dict[str, Any], words: str) -> None:
    """It is refused as the rows are read, not on the node where it breaks."""
    right = {"of": "limits.nr_open", "is": "at-least", "to": 4096, "wanted": "4096"}
    assert Relation.model_validate(right).to == 4096
    with pytest.raises(ValidationError, match=re.escape(words)):
        Relation.model_validate({**right, **row})


def test_each_entry_of_a_list_and_of_a_mapping() -> None:
    """An entry of a list is its own subject, a value of a mapping has its name."""
    node = states.state({"driver": {"waiting": ["/a", "/b"], "packages": {"x": "1", "y": "2"}}})
    of_list = Relation.model_validate({"of": "driver.waiting", "is": "absent", "wanted": "none"})
    assert [str(about) for about, *_ in of_list.broken(node)] == ["/a", "/b"]
    row = {"of": "driver.packages", "is": "equals", "to": "1", "wanted": "1"}
    broken = [*Relation.model_validate(row).broken(node)]
    assert [(str(about), found) for about, found, _ in broken] == [("y", "2")]

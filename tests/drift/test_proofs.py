"""Each rule is proved: by a fault of the lab, a test of real programs, or cases with a reason."""

import ast
import re
from collections import Counter

import pytest
import yaml

from docs import proofs
from gpu_node.drift.engine.registry import RULES

LISTED = yaml.safe_load(proofs.LIST.read_text(encoding="utf-8"))


def test_each_rule_is_proved_once() -> None:
    """By a fault, or by one entry of proofs.yml; a rule that has a fault needs no entry."""
    counts = Counter(each.rule for each in proofs.proofs())
    problems = [
        f"{rule}: no fault expects it, and proofs.yml has no entry"
        for rule in RULES
        if not counts[rule]
    ]
    problems += [f"{rule}: it has a fault, or two entries" for rule in counts if counts[rule] > 1]
    problems += [f"{rule}: no such rule" for rule in counts.keys() - RULES.keys()]
    assert problems == []


@pytest.mark.parametrize("rule", LISTED["tests"])
def test_a_listed_test_names_its_rule(rule: str) -> None:
    """It exists, its file names the rule, and it is no case again."""
    name, _, test = LISTED["tests"][rule].partition("::")
    assert name.startswith("tests/") and not name.startswith("tests/drift/")
    text = (proofs.REPOSITORY / name).read_text(encoding="utf-8")
    assert re.search(rf"(?<![\w.-]){rule}(?![\w.-])", text), f"{name} does not name {rule}"
    tests = [each.name for each in ast.parse(text).body if isinstance(each, ast.FunctionDef)]
    assert test in tests


def test_the_page_is_current() -> None:
    """`python -m docs.proofs` writes it again."""
    is_current = proofs.PAGE.read_text(encoding="utf-8") == proofs.page()
    assert is_current, f"{proofs.PAGE.name} is out of date: run python -m docs.proofs"


def test_the_summary_counts_each_rule() -> None:
    """It is a table, whose last row is the sum of all areas."""
    *areas, every = [line.strip("| ").split(" | ") for line in proofs.summary()[2:]]
    sums = [str(sum(map(int, column))) for column in list(zip(*areas, strict=True))[1:]]
    assert every == ["all", *sums]
    assert sums[0] == str(len(RULES))

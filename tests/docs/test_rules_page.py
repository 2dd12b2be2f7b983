"""docs/rules.md lists every rule, as the rules describe themselves."""

import subprocess
import sys

import pytest

from docs import rules
from gpu_node.drift.engine.registry import RULES, Rule
from gpu_node.inventories.fields.switched import rule_names


def test_the_page_is_current() -> None:
    """`python docs/rules.py` writes it again."""
    is_current = rules.PAGE.read_text(encoding="utf-8") == rules.page()
    assert is_current, "docs/rules.md is out of date: run python docs/rules.py"


def test_an_inventory_knows_each_rule() -> None:
    """It reads their source, because it may not import them."""
    assert sorted(rule_names()) == sorted(RULES)


def test_the_order_does_not_depend_on_imports() -> None:
    """A module of rules that is imported before all others does not come first."""
    first = ["clock.rules", "driver.rules_gpus", "ssh.rules_mesh"]
    imports = "".join(f"import gpu_node.drift.{module}\n" for module in first)
    shown = "from gpu_node.drift.engine.registry import RULES\nprint(*RULES)"
    command = [sys.executable, "-c", imports + shown]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [*RULES]


@pytest.mark.parametrize("rule", RULES.values(), ids=lambda rule: rule.id)
def test_a_rule_has_all_its_text(rule: Rule) -> None:
    """What it checks, why it hurts, the manual repair; what a repair changes where there is one."""
    assert rule.checks.endswith(".")
    # They are the cause and the fix of findings, which are no sentences.
    for text in (rule.why, rule.manual):
        assert len(text) > 10
        assert not text.endswith(".")
    assert bool(rule.repair) == bool(rule.steps)
    assert not rule.repair or rule.repair.endswith(".")
    assert f"### {rule.id}\n" in rules.page()

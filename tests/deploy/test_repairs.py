"""Rules and steps: the step that a rule names asks for its findings, and no other step does."""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path

import pytest

from gpu_node import deploy
from gpu_node.deploy.engine.plan import Plan
from gpu_node.drift.engine.registry import RULES
from gpu_node.drift.engine.rule import Rule

DEPLOY = Path(deploy.__file__).parent
STEPS = {path.parent.name: path for path in sorted(DEPLOY.glob("*/step.py"))}


def _asked(area: str) -> set[Rule]:
    """Return the rules that a step asks for, without those of which it reads all findings."""
    module = import_module(f"gpu_node.deploy.{area}.step")
    tree = ast.parse(STEPS[area].read_text())
    read = {
        each
        for call in ast.walk(tree)
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and call.func.attr == Plan.findings_of.__name__
        for each in call.args
    }
    named = (
        getattr(getattr(module, node.value.id, None), node.attr, None)
        for node in ast.walk(tree)
        if node not in read and isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
    )
    return {each for each in named if isinstance(each, Rule)}


# What steps ask before they change something: `checks` does not turn these off.
GUARDS = {"driver.secure-boot", "driver.unsupported-gpu", "nccl.package-locked"}
# Repaired together with the findings that explain it, or before the plan, in baseline.py.
TOGETHER = {"ssh.no-login", "limits.unconfirmed", "ssh.unconfirmed"}


def test_no_rule_is_named_by_a_string() -> None:
    """A rule that a string names may be misspelt; an import of it, or RULES[...], may not."""
    literals = set()
    for path in DEPLOY.rglob("*.py"):
        nodes = [*ast.walk(ast.parse(path.read_text()))]
        of_rules = {id(each.slice) for each in nodes if isinstance(each, ast.Subscript)}
        literals |= {
            (path.relative_to(DEPLOY).as_posix(), node.value)
            for node in nodes
            if isinstance(node, ast.Constant) and node.value in RULES and id(node) not in of_rules
        }
    assert literals == set()


def test_two_steps_share_only_the_interface_of_nccl() -> None:
    """It is set in a file of the system and in a shell: each is repaired by its own step."""
    shared = {rule.id for rule in RULES.values() if len(rule.steps) > 1}
    assert shared == {"network.ifname-missing", "network.ifname-wrong"}


def test_each_step_that_a_rule_names_is_there() -> None:
    """And no step is without a rule."""
    assert {step for rule in RULES.values() for step in rule.steps} == {*STEPS}


@pytest.mark.parametrize("area", STEPS)
def test_a_step_asks_for_the_rules_that_name_it(area: str) -> None:
    """For each of them, and beside them for its guards alone."""
    named = {rule.id for rule in RULES.values() if area in rule.steps}
    asked = {rule.id for rule in _asked(area)}
    assert named - TOGETHER <= asked <= named | GUARDS


def test_the_steps_that_ask_are_seen() -> None:
    """The control: the test above reads what a step asks."""
    assert {rule.id for rule in _asked("shm")} >= {"shm.too-small", "shm.stale-segments"}
    assert "nccl.package-unheld" in {rule.id for rule in _asked("nccl")}

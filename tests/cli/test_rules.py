"""`gpu-node rules`: a table on a terminal, a line for each rule in a pipe."""

from __future__ import annotations

from click.testing import CliRunner

from gpu_node.cli.rules import rules
from gpu_node.drift.engine.registry import RULES


def test_a_pipe_gets_a_line_for_each_rule() -> None:
    """What grep finds has the whole of its rule, with each severity that a finding may have."""
    lines = CliRunner(env={"COLUMNS": "80"}).invoke(rules).output.splitlines()
    assert len(lines) == len(RULES)
    for rule in RULES.values():
        (line,) = [each for each in lines if f" {rule.id} " in each]
        repair = "repaired" if rule.steps else "manual"
        severities = " or ".join(rule.severity).split()
        assert [*severities, rule.id, repair, *rule.checks.split()] == line.split()

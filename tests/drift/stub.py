"""A rule for a test alone: an id, a function, and what the test is about of a row."""

from __future__ import annotations

from typing import Any

from gpu_node.drift.engine.rule import Check, Rule

ROW: dict[str, Any] = {"checks": "It.", "severity": "error", "why": "", "manual": ""}


def stub(rule_id: str, check: Check, **row: object) -> Rule:
    return Rule.model_validate({**ROW, **row, "id": rule_id, "check": check})

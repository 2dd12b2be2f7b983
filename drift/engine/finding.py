"""A finding: what is wrong on a node, why it hurts, what cures it, and who can apply the cure."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

Severity = Literal["error", "warning", "info"]


class Finding(BaseModel):
    """One thing wrong on one node; the fields are those of the JSON report."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    rule: str
    severity: Severity
    subject: str
    found: str
    wanted: str
    cause: str
    fix: str
    # Whether `step` of the deploy repairs it.
    fixable: bool
    step: str

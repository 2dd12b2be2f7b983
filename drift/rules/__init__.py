"""The rules: one module an area; importing this package registers them all."""

from drift.rules import limits, nccl, shm, toolchain
from drift.rules.rule import RULES, Rule

__all__ = ["RULES", "Rule", "limits", "nccl", "shm", "toolchain"]

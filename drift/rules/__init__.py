"""The rules: one module an area; importing this package registers them all."""

from drift.rules import libnccl, limits, nccl, shm, toolchain
from drift.rules.rule import RULES, Rule

__all__ = ["RULES", "Rule", "libnccl", "limits", "nccl", "shm", "toolchain"]

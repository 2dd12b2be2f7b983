"""The rules: one module an area or two; importing this package registers them all."""

from drift.rules import driver, gpus, hazards, libnccl, limits, mesh, nccl, shm, ssh, toolchain
from drift.rules.rule import RULES, Rule

_MODULES = (driver, gpus, hazards, libnccl, limits, nccl, shm, toolchain, ssh, mesh)
__all__ = ["RULES", "Rule"]

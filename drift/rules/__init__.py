"""The rules: one module an area or two; importing this package registers them all."""

from drift.rules import (
    clones,
    driver,
    driver_packages,
    env,
    env_lint,
    environments,
    gpus,
    hazards,
    libnccl,
    limits,
    mesh,
    nccl,
    network,
    segments,
    shm,
    ssh,
    toolchain,
    workspace,
)
from drift.rules.rule import RULES, Rule

_MODULES = (
    *(
        clones,
        driver,
        driver_packages,
        env,
        env_lint,
        environments,
        gpus,
        hazards,
        libnccl,
        limits,
        mesh,
        nccl,
        network,
    ),
    *(segments, shm, ssh, toolchain, workspace),
)
__all__ = ["RULES", "Rule"]

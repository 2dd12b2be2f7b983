"""NCCL: each Python environment has the one wheel that its torch wants, and that one whole."""

from __future__ import annotations

from pyinfra.api import deploy

from deploy.operations import nccl
from deploy.plan import Plan
from drift.rules.nccl import kept_wheel, wrong_wheels

_WHEELS = ("nccl.duplicate-wheels", "nccl.wheel-damaged", "nccl.loaded-mismatch")


@deploy("NCCL")
def converge(plan: Plan) -> None:
    """Repair what the NCCL rules found."""
    wanted = plan.wanted.nccl
    if wanted is None:
        return
    broken = {each.subject for each in plan.findings if each.fixable and each.rule in _WHEELS}
    for prefix, environment in plan.found.nccl.environments.items():
        keep = kept_wheel(environment, wanted) if environment else None
        if prefix not in broken or environment is None or keep is None:
            continue
        nccl.wheels(
            name=f"Make {keep} whole in {prefix}",
            environment=prefix,
            keep=keep,
            remove=[wheel.name for wheel in wrong_wheels(environment, wanted)],
            allow_disruption=plan.allow_disruption,
        )

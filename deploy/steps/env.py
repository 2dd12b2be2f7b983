"""Environment: our blocks in ~/.bashrc say what a launcher's shell has to have."""

from __future__ import annotations

from pyinfra.api import deploy

from deploy.operations import env
from deploy.plan import Plan
from drift.ifname import INTERACTIVE, RULES, SHELL, managed, wanted_blocks


@deploy("Environment")
def converge(plan: Plan) -> None:
    """Repair what the rules found in the shell of who trains."""
    values, user = managed(plan.found, plan.wanted), plan.found.env.user
    if values is None or user is None or not _is_asked(plan):
        return
    blocks = wanted_blocks(plan.found, values)
    path = f"{user.home}/.bashrc"
    env.blocks(name=f"Write {path}", path=path, user=user.name, top=blocks.top, end=blocks.end)


def _is_asked(plan: Plan) -> bool:
    shells = {SHELL, INTERACTIVE} & set(plan.subjects(*RULES))
    return bool(shells) or plan.repairs("env.not-set", "env.block-outdated")

"""Environment: our blocks in ~/.bashrc say what a launcher's shell has to have."""

from __future__ import annotations

from pyinfra.api import deploy

from deploy.operations import env
from deploy.plan import Plan
from deploy.shared import changes
from drift.bashrc import are_placed, env_file, is_anothers
from drift.ifname import INTERACTIVE, RULES, SHELL, managed, wanted_blocks
from facts.start_files import ENV_FILE


@deploy("Environment")
def converge(plan: Plan) -> None:
    """Repair what the rules found in the shell of who trains."""
    values, user = managed(plan.found, plan.wanted), plan.found.env.user
    if values is None or user is None or not _is_asked(plan):
        return
    path, blocks = f"{user.home}/.bashrc", wanted_blocks(plan.found, values)
    if is_anothers(plan.found.env):
        # First what it reads, which is this node's own.
        env.own_file(name=f"Write {ENV_FILE}", path=ENV_FILE, text=env_file(values))
        if are_placed(plan.found.env, blocks):
            return
        if not changes(plan, path, lambda found: found.env.home, _is_asked):
            return
    env.blocks(name=f"Write {path}", path=path, user=user.name, top=blocks.top, end=blocks.end)


def _is_asked(plan: Plan) -> bool:
    shells = {SHELL, INTERACTIVE} & set(plan.subjects(*RULES))
    return bool(shells) or plan.repairs("env.not-set", "env.block-outdated")

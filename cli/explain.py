"""`gpu-node explain`: what a rule of the report checks, why, and what repairs it."""

from __future__ import annotations

import click

from gpu_node.cli import completion
from gpu_node.cli.loading import loading


@click.command(short_help="Explain a rule: what it checks, why, and its repair.")
@click.argument("rule", shell_complete=completion.rules)
def explain(rule: str) -> None:
    """Explain RULE: what it checks, why it hurts, what the deploy changes, what you can do.

    RULE is the id of a finding, or an area: then all its rules.

    \b
    Examples:     gpu-node explain shm.too-small
                  gpu-node explain ssh
    """
    with loading():
        from gpu_node.cli.console import show
        from gpu_node.drift.report import explained
        from gpu_node.facts.areas import AREAS
        from gpu_node.inventories.errors import did_you_mean, shown, worded
    known = [*(each.id for each in explained.in_order()), *explained.UNREADABLE, *AREAS]
    if rule not in known:
        why = f"an unknown rule{did_you_mean(rule, known)}"
        raise click.UsageError(
            f"RULE: {worded(shown(rule), why, 'a rule or an area', 'gpu-node rules')}"
        )
    show(explained.texts(rule))

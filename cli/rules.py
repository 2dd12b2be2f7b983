"""`gpu-node rules`: all rules of the report, and which of them the deploy repairs."""

from __future__ import annotations

import click

from gpu_node.cli import completion
from gpu_node.cli.loading import loading

# In a pipe no line of a rule is wrapped: grep finds it whole.
_UNWRAPPED = 10_000


@click.command(short_help="List all rules of the report.")
@click.argument("area", required=False, shell_complete=completion.areas)
def rules(area: str | None) -> None:
    """List all rules of the report, or those of AREA, and which of them the deploy repairs.

    \b
    Examples:     gpu-node rules
                  gpu-node rules driver
    """
    with loading():
        from gpu_node.cli.console import show
        from gpu_node.drift.report import explained
        from gpu_node.facts.areas import AREAS
        from gpu_node.inventories.errors import did_you_mean, shown, worded
    if area not in (None, *AREAS):
        why = f"no such area{did_you_mean(str(area), AREAS)}"
        raise click.UsageError(f"AREA: {worded(shown(area), why, ', '.join(AREAS))}")
    show(explained.listed(area), in_pipe=_UNWRAPPED)

"""`gpu-node explain`: what a rule of the report checks, why, and what repairs it."""

from __future__ import annotations

import click

from gpu_node.cli import completion
from gpu_node.cli.loading import loading


@click.command(short_help="Explain a rule: what it checks, why, and its repair.")
@click.argument("rule", shell_complete=completion.rules)
def explain(rule: str) -> None:
    """Explain RULE: what it checks, why it hurts, what the deploy changes, what you can do.

    RULE is the id of a finding, or an area: then all its rules; or the id of a cause of gpu-node
    diagnose.

    \b
    Examples:     gpu-node explain shm.too-small
                  gpu-node explain ssh
                  gpu-node explain cause.shm-too-small
    """
    with loading():
        from gpu_node.cli.console import show
        from gpu_node.diagnose.cause import PREFIX, causes
        from gpu_node.drift.engine.shown_facts import FACTS
        from gpu_node.drift.report import explained
        from gpu_node.facts.areas import AREAS
        from gpu_node.inventories.errors import did_you_mean, dotted, shown, worded
        from gpu_node.inventories.keys import keys_of
        from gpu_node.inventories.schema import HostEntry
    if rule.startswith(PREFIX):
        from gpu_node.diagnose.report import explained as of_cause

        ids = [each.id for each in causes().values()]
        if rule not in ids:
            why = f"an unknown cause{did_you_mean(rule, ids)}"
            allowed = f"{PREFIX}NAME as gpu-node diagnose prints it"
            raise click.UsageError(f"RULE: {worded(shown(rule), why, allowed)}")
        show(of_cause(causes()[rule.removeprefix(PREFIX)]))
        return
    known = [*(each.id for each in explained.in_order()), *explained.UNREADABLE, *AREAS]
    if rule not in known:
        why, then = f"an unknown rule{did_you_mean(rule, known)}", "gpu-node rules"
        area = rule.partition(".")[0]
        is_a_key = rule in {dotted(key.path) for key in keys_of(HostEntry)}
        if area in AREAS and (is_a_key or rule in {fact.name for fact in FACTS}):
            what = "key of the inventory" if is_a_key else "fact of the report"
            why, then = f"a {what}, not a rule", f"{then} {area}"
        raise click.UsageError(f"RULE: {worded(shown(rule), why, 'a rule or an area', then)}")
    show(explained.texts(rule))

"""`gpu-node explain`: what a rule of the report checks, why, and what repairs it."""

from __future__ import annotations

from collections.abc import Mapping

import click

from gpu_node.cli import completion
from gpu_node.cli.loading import loading
from gpu_node.inventories.errors import nearest

_MOST_MEANT = 5


@click.command(short_help="Explain a rule: what it checks, why, and its repair.")
@click.argument("rule", shell_complete=completion.rules)
def explain(rule: str) -> None:
    """Explain RULE: what it checks, why it hurts, what the deploy changes, what you can do.

    RULE is the id of a finding, or an area: then all its rules; or the id of a cause of gpu-node
    diagnose; or the code of an Xid error, as xid.79.

    \b
    Examples:     gpu-node explain shm.too-small
                  gpu-node explain ssh
                  gpu-node explain cause.shm-too-small
                  gpu-node explain xid.79
    """
    with loading():
        from gpu_node.cli.console import show
        from gpu_node.diagnose.cause import PREFIX, causes
        from gpu_node.drift import xids
        from gpu_node.drift.engine.shown_facts import FACTS
        from gpu_node.drift.report import explained
        from gpu_node.facts.areas import AREAS
        from gpu_node.inventories.errors import dotted, shown, worded
        from gpu_node.inventories.keys import keys_of
        from gpu_node.inventories.schema import HostEntry
    rule = rule.lower()
    by_id = {each.id: each for each in causes().values()}
    former = {f"{PREFIX}{name}": each for each in by_id.values() for name in each.was}
    if cause := (by_id | former).get(rule):
        from gpu_node.diagnose.report import explained as of_cause

        show(of_cause(cause))
        return
    code = rule.removeprefix(xids.PREFIX)
    if code != rule and code.isascii() and code.isdecimal() and len(code) < 6:
        show(explained.of_xid(int(code)))
        return
    texts = {each.id: each.checks for each in explained.in_order()}
    texts |= dict.fromkeys((*explained.UNREADABLE, *AREAS), "")
    if rule not in texts:
        is_cause = rule.startswith(PREFIX)
        of_causes = {
            each.id: " ".join([each.says, *(f"{p.has} {p.line}" for p in each.patterns)])
            for each in by_id.values()
        }
        meant = _meant(rule, of_causes if is_cause else {**texts, **of_causes}, PREFIX)
        why, then = f"an unknown {'cause' if is_cause else 'rule'}{meant}", "gpu-node rules"
        area = rule.partition(".")[0]
        is_a_key = rule in {dotted(key.path) for key in keys_of(HostEntry)}
        if area in AREAS and (is_a_key or rule in {fact.name for fact in FACTS}):
            what = "key of the inventory" if is_a_key else "fact of the report"
            why, then = f"a {what}, not a rule", f"{then} {area}"
        allowed = (
            f"{PREFIX}NAME as gpu-node diagnose prints it" if is_cause else "a rule or an area"
        )
        problem = worded(shown(rule), why, allowed, "" if is_cause else then)
        raise click.UsageError(f"RULE: {problem}")
    show(explained.texts(rule))


def _meant(word: str, texts: Mapping[str, str], prefix: str) -> str:
    """Return a hint at the id near a word, else at those that have it, or whose text has it."""
    name = word.removeprefix(prefix).lower()
    names = {each.removeprefix(prefix): each for each in texts}
    found = [near] if (near := nearest(name, names)) else []
    if len(name) > 2:
        found = found or [each for each in names if name in each]
        found = found or [each for each, known in names.items() if name in texts[known].lower()]
    listed = [names[each] for each in found[:_MOST_MEANT]]
    return f", did you mean {' or '.join(listed)}?" if listed else ""

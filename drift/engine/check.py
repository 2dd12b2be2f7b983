"""The one definition of wrong: every rule over a node's found and wanted state."""

from __future__ import annotations

from collections.abc import Iterator

from drift.among import Among
from drift.finding import Finding
from drift.rules import RULES
from drift.sudo import advice_on
from drift.training_user import is_explained
from facts.node import NodeState
from inventories.schema import NodeWanted

# Areas whose facts the rules of another one need, and that are unreadable for those as well.
_NEEDED_BY = {"env": ("env", "network")}


def check(found: NodeState, wanted: NodeWanted, among: Among | None = None) -> list[Finding]:
    """Return all findings about one node; areas the inventory leaves out are not judged.

    `among` says who its peers are and what was found on them; without it, it has none.
    """
    return [*_unreadable(found, wanted), *_judged(found, wanted, among or Among())]


def _judged(found: NodeState, wanted: NodeWanted, among: Among) -> Iterator[Finding]:
    areas = list(NodeState.model_fields)
    for rule in sorted(RULES.values(), key=lambda rule: areas.index(rule.area)):
        # A whole check judges by what is wanted of several areas: its own may be left out.
        if rule.whole or getattr(wanted, rule.area) is not None:
            yield from rule.findings(found, wanted, among)


def _unreadable(found: NodeState, wanted: NodeWanted) -> Iterator[Finding]:
    """Yield a finding for each fact that could not be read: unknown is never equal."""
    for unread in found.unreadable:
        if not _is_needed(unread.area, wanted) or is_explained(unread, found):
            continue
        advice = advice_on(unread, found)
        cause, fix = advice or (
            "what cannot be read cannot be compared, and is never taken for right",
            "look at the raw answer: pyinfra INVENTORY --limit NODE fact facts.node.NodeProbe -vvv",
        )
        yield Finding(
            rule=f"{unread.area}.unreadable",
            severity="error",
            subject=unread.section,
            found=unread.reason,
            wanted="an answer",
            cause=cause,
            fix=fix,
            fixable=False,
            step=unread.area,
        )


def _is_needed(area: str, wanted: NodeWanted) -> bool:
    return any(getattr(wanted, each) is not None for each in _NEEDED_BY.get(area, (area,)))

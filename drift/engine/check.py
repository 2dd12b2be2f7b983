"""The one definition of wrong: every rule over the found and wanted states of nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial

from gpu_node.drift.engine.causes import with_roots
from gpu_node.drift.engine.finding import Finding
from gpu_node.drift.engine.guard import (
    Judged,
    Judgement,
    attempt,
    by_comparing,
    by_rules,
    shown,
    unread,
)
from gpu_node.drift.engine.neighbours import Among
from gpu_node.drift.engine.rule import is_named, is_on
from gpu_node.drift.engine.subject import RootOnly
from gpu_node.drift.env.training_user import is_explained
from gpu_node.drift.ssh.sudo import advice_on
from gpu_node.facts.node import ROOT_SECTIONS, NodeState, UnreadSection
from gpu_node.inventories.schema import NodeWanted

# What only rules read that need the key of their area; every other fact is judged in any case.
_ONLY_NAMED = ("ssh.", "workspace.", "limits.files", "limits.pam")


def check(found: NodeState, wanted: NodeWanted, among: Among | None = None) -> list[Finding]:
    """Return all findings about one node; what needs a wanted value is judged where it is set.

    `among` says who its peers are and what was found on them; without it, it has none.
    """
    around = among or Among()
    return judge({around.name: Judged(found, wanted, around)}).findings[around.name]


def judge(nodes: Mapping[str, Judged]) -> Judgement:
    """Return all findings about each of some nodes that are judged among each other.

    Whatever one of them answers, the others are judged: see `drift.engine.guard`.
    """
    by_rule = by_rules(nodes)
    unread = {
        name: [
            each
            for each in (*_unreadable(node.found, node.wanted), *shown(node.found))
            if is_on(each.rule, node.wanted)
        ]
        for name, node in nodes.items()
    }
    compared = by_comparing(nodes, unread, by_rule.findings)
    return replace(
        compared,
        findings=with_roots(compared.findings),
        blamed=by_rule.blamed | compared.blamed,
        muted=by_rule.muted,
    )


def _unreadable(found: NodeState, wanted: NodeWanted) -> Iterator[Finding]:
    """Yield a finding for each fact that could not be read: unknown is never equal."""
    for each in found.unreadable:
        if not _is_needed(each, wanted) or is_explained(each, found):
            continue
        yield attempt(partial(_unread, each, found), each.area, each.section)


def _unread(section: UnreadSection, found: NodeState) -> Finding:
    known = unread(section.area, section.section, section.reason)
    advice = advice_on(section, found)
    cause, fix = advice or (
        "what cannot be read cannot be compared, and never counts as correct",
        known.fix,
    )
    is_roots = advice is not None and section.section in ROOT_SECTIONS
    about = RootOnly(section.section) if is_roots else known.about
    words = {"wanted": "an answer", "cause": cause, "fix": fix}
    return known.model_copy(update={**words, "about": about})


def _is_needed(unread: UnreadSection, wanted: NodeWanted) -> bool:
    return is_named(unread.area, wanted) or not unread.section.startswith(_ONLY_NAMED)

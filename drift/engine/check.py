"""The one definition of wrong: every rule over the found and wanted states of nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial

from gpu_node.drift.engine.areas import hooks, hooks_of
from gpu_node.drift.engine.finding import Finding
from gpu_node.drift.engine.judgement import (
    Judged,
    Judgement,
    attempt,
    by_comparing,
    by_rules,
    in_order,
    off_by_comparing,
    shown,
    unread,
)
from gpu_node.drift.engine.nodes import Nodes
from gpu_node.drift.engine.roots import with_roots
from gpu_node.drift.engine.rule import is_named, is_of
from gpu_node.drift.engine.subject import RootOnly
from gpu_node.facts.node import ROOT_SECTIONS, NodeState, UnreadSection
from gpu_node.inventories.schema import NodeWanted


def check(state: NodeState, wanted: NodeWanted, nodes: Nodes | None = None) -> list[Finding]:
    """Return all findings about one node; what needs a wanted value is judged where it is set.

    `nodes` has its peers and their states; without it, it has none.
    """
    nodes = nodes or Nodes()
    return judge({nodes.name: Judged(state, wanted, nodes)}).findings[nodes.name]


def judge(nodes: Mapping[str, Judged]) -> Judgement:
    """Return all findings about each of some nodes that are judged among each other.

    Whatever one of them answers, the others are judged: see `drift.engine.judgement`.
    """
    by_rule = by_rules(nodes)
    unread = {
        name: [*_unreadable(node.state, node.wanted), *shown(node.state, node.wanted)]
        for name, node in nodes.items()
    }
    known = {
        name: [each for each in unread[name] if node.is_on(each.rule)]
        for name, node in nodes.items()
    }
    compared = by_comparing(nodes, known, by_rule.findings)
    return replace(
        compared,
        findings=with_roots(compared.findings),
        blamed=by_rule.blamed | compared.blamed,
        muted=_muted(nodes, unread, by_rule),
    )


def _muted(
    nodes: Mapping[str, Judged], unread: Mapping[str, list[Finding]], by_rule: Judgement
) -> dict[str, list[Finding]]:
    """Return what would be a finding if the inventory turned nothing off, of nodes with `checks`.

    `unread` are the findings about values that could not be read, of what is off as well.
    """
    off = {name: node for name, node in nodes.items() if node.wanted.checks}
    every = {
        name: [*findings, *by_rule.muted.get(name, ())]
        for name, findings in by_rule.findings.items()
    }
    compared = off_by_comparing(nodes, unread, every) if off else {}
    return {
        name: in_order(
            [
                *(each for each in unread[name] if not node.is_on(each.rule)),
                *by_rule.muted[name],
                *compared.get(name, ()),
            ]
        )
        for name, node in off.items()
    }


def _unreadable(state: NodeState, wanted: NodeWanted) -> Iterator[Finding]:
    """Yield a finding for each fact that could not be read: unknown is never equal."""
    for each in state.unreadable:
        is_explained = any(area.explains(each, state) for area in hooks().values())
        if not is_explained and _is_needed(each, wanted):
            yield attempt(partial(_unread, each, state), each.area, each.section)


def _unread(section: UnreadSection, state: NodeState) -> Finding:
    known = unread(section.area, section.section, section.reason)
    advised = (area.advises(section, state) for area in hooks().values())
    advice = next((each for each in advised if each), None)
    cause, fix = advice or (
        "what cannot be read cannot be compared, and never counts as correct",
        known.fix,
    )
    is_roots = advice is not None and section.section in ROOT_SECTIONS
    about = RootOnly(section.section) if is_roots else known.about
    words = {"wanted": "an answer", "cause": cause, "fix": fix}
    return known.model_copy(update={**words, "about": about})


def _is_needed(unread: UnreadSection, wanted: NodeWanted) -> bool:
    is_asked_for = is_named(unread.area, wanted) or not unread.section.startswith(
        hooks_of(unread.area).only_named
    )
    return is_asked_for and is_of(wanted, unread.area, unread.section)

"""The one definition of wrong: every rule over the found and wanted states of nodes."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial

from gpu_node.drift.engine.areas import hooks, hooks_of
from gpu_node.drift.engine.compare import drifting, unlikes
from gpu_node.drift.engine.finding import Finding
from gpu_node.drift.engine.judgement import (
    Judgement,
    attempt,
    by_comparing,
    by_rules,
    in_order,
    shown,
    unread,
)
from gpu_node.drift.engine.nodes import Judged, Nodes
from gpu_node.drift.engine.roots import with_roots
from gpu_node.drift.engine.rule import is_named, is_of
from gpu_node.drift.engine.subject import RootOnly
from gpu_node.facts.node import ROOT_SECTIONS, NodeState, UnreadSection
from gpu_node.inventories.wanted import NodeWanted


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
    unread = {
        name: [*_unreadable(node), *shown(node.state, node.wanted)] for name, node in nodes.items()
    }
    known = {
        name: [each for each in unread[name] if node.is_on(each.rule)]
        for name, node in nodes.items()
    }
    judged = by_rules(nodes)
    unlike = unlikes(nodes, {name: [*known[name], *judged.findings[name]] for name in nodes})
    compared = by_comparing(nodes, unlike, judged)
    found = {name: [*known[name], *in_order(compared.findings[name])] for name in nodes}
    muted: dict[str, list[Finding]] = {}
    if any(node.wanted.checks for node in nodes.values()):
        # As if nothing were turned off; the other node of a difference is compared with none.
        every = {
            name: [*unread[name], *judged.findings[name], *judged.muted[name]] for name in nodes
        }
        all_on = {
            name: replace(node, wanted=node.wanted.model_copy(update={"checks": None}))
            for name, node in nodes.items()
        }
        again = by_comparing(nodes, unlikes(all_on, every), judged)
        for name, node in nodes.items():
            off = [each for each in unread[name] if not node.is_on(each.rule)]
            muted[name] = in_order([*off, *again.muted[name]])
    return Judgement(with_roots(found), compared.blamed, drifting(unlike), muted)


def _unreadable(node: Judged) -> Iterator[Finding]:
    """Yield a finding for each fact that could not be read: unknown is never equal."""
    for each in node.state.unreadable:
        is_explained = any(area.explains(each, node.state) for area in hooks().values())
        if not is_explained and _is_needed(each, node.wanted):
            yield attempt(partial(_unread, each, node), each.area, each.section)


def _unread(section: UnreadSection, node: Judged) -> Finding:
    known = unread(section.area, section.section, section.reason)
    via = node.nodes.via
    advised = (area.advises(section, node.state, via) for area in hooks().values())
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

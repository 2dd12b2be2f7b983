"""What is new, gone and changed in a report since an earlier one; what it cannot judge is not gone.

A finding is the same one if its node, rule and subject are.
"""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple

from gpu_node.drift.engine.finding import Finding, Severity
from gpu_node.drift.engine.registry import RULES, why_not_judged
from gpu_node.drift.engine.shown_facts import FACTS
from gpu_node.drift.report.change_words import ANSWER, ANSWERED
from gpu_node.drift.report.model import HostReport, Report
from gpu_node.drift.report.signs import SEVERITY_STYLES
from gpu_node.facts.node import NodeState

PACKAGES = "toolchain.packages"
DEEP, MESH = "deep", "mesh"
# Of which area a report finds more if it was asked for.
_MORE = {DEEP: "nccl", MESH: "ssh"}
# Of one node, and of one text: a node can send what it likes.
_MOST_FINDINGS, _LONGEST, _LONGEST_LIST = 500, 300, 60_000
_SEVERITIES = list(SEVERITY_STYLES)
_UNREADABLE = ".unreadable"


class Key(NamedTuple):
    """What makes two findings of a node the same one."""

    rule: str
    subject: str


@dataclass(frozen=True)
class Known:
    """A finding of an earlier report.

    `since` is the number of the report that has it first, `asked` what that report was asked
    beyond others, and `nodes` the nodes that it read.
    """

    severity: Severity
    found: str
    wanted: str
    since: float = 0
    asked: frozenset[str] = frozenset()
    nodes: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Node:
    """What is kept of one node: the texts of its facts, and its findings."""

    facts: dict[str, str] = field(default_factory=dict)
    findings: dict[Key, Known] = field(default_factory=dict)

    @property
    def is_read(self) -> bool:
        """Whether it answered."""
        return self.facts.get(ANSWER) == ANSWERED

    @property
    def is_known(self) -> bool:
        """Whether it ever answered: facts are kept while it does not."""
        return self.is_read or len(self.facts) > 1


@dataclass(frozen=True)
class Snapshot:
    """What is kept of a report, and what it can judge.

    `asked` is what it was asked beyond others, `peers` the nodes of the inventory, and `why_off`
    returns why it does not judge a rule on a node; empty where it does.
    """

    nodes: Mapping[str, Node]
    asked: frozenset[str] = frozenset()
    peers: frozenset[str] = frozenset()
    why_off: Callable[[str, str], str] = lambda node, rule: ""

    @property
    def read(self) -> frozenset[str]:
        """The nodes that answered."""
        return frozenset(name for name, node in self.nodes.items() if node.is_read)


class OfNode(NamedTuple):
    """A finding and its node."""

    node: str
    key: Key


@dataclass(frozen=True)
class Difference:
    """What differs: `worse` and `better` findings have another severity, `facts` old and new text.

    `unjudged` has the reason for each; `added` are nodes that the earlier report did not read.
    """

    absent_before: list[OfNode] = field(default_factory=list)
    worse: list[OfNode] = field(default_factory=list)
    better: list[OfNode] = field(default_factory=list)
    gone: list[OfNode] = field(default_factory=list)
    unjudged: dict[OfNode, str] = field(default_factory=dict)
    facts: list[tuple[str, str, str | None, str]] = field(default_factory=list)
    added: list[str] = field(default_factory=list)


def snapshot(report: Report, asked: frozenset[str]) -> Snapshot:
    """Return what is kept of a whole report."""
    judged = {name: host.judged for name, host in report.hosts.items() if host.judged is not None}
    nodes = {name: node_of(host) for name, host in report.hosts.items()}
    peers = frozenset(peer.name for node in judged.values() for peer in node.nodes.peers)
    return Snapshot(nodes, asked, peers, lambda node, rule: why_not_judged(rule, judged[node]))


def node_of(host: HostReport) -> Node:
    """Return what is kept of a node's part of a report."""
    if not isinstance(host.facts, NodeState):
        return Node({ANSWER: host.status})
    return Node({ANSWER: ANSWERED, **facts_of(host.facts)}, findings_of(host.findings))


def facts_of(state: NodeState) -> dict[str, str]:
    """Return the facts that a report shows of a node, and the packages of each environment.

    What could not be read is left out.
    """
    values = ((fact.name, fact.value(state)) for fact in FACTS if fact.is_asked(state))
    facts = {name: bounded(value) for name, value in values if value is not None}
    for prefix, environment in state.nccl.environments.items():
        if environment is not None:
            packages = ", ".join(map(" ".join, sorted(environment.packages.items())))
            facts[bounded(f"{PACKAGES} in {prefix}")] = bounded(packages, _LONGEST_LIST)
    return facts


def findings_of(findings: list[Finding]) -> dict[Key, Known]:
    """Return findings by what makes them the same; of several the worst."""
    kept: dict[Key, Known] = {}
    for each in findings[:_MOST_FINDINGS]:
        key = Key(bounded(each.rule), bounded(each.subject))
        if key not in kept or is_worse(each.severity, kept[key].severity):
            kept[key] = Known(each.severity, bounded(each.found), bounded(each.wanted))
    return kept


def bounded(text: str, most: int = _LONGEST) -> str:
    """Return a text that is kept: of a longer one its begin, and a digest of the whole.

    Half a surrogate pair, which no file can have, is written as an escape.
    """
    if len(text) > most:
        digest = hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:12]
        text = f"{text[:most]}... (sha256 {digest})"
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def is_worse(severity: Severity, than: Severity) -> bool:
    """Whether a severity comes before another one."""
    return _SEVERITIES.index(severity) < _SEVERITIES.index(than)


def difference(then: Mapping[str, Node], now: Snapshot) -> Difference:
    """Return what differs in the nodes of a report from what is known of them from earlier ones."""
    found = Difference()
    unread = {name: _unread_since(then.get(name, Node()), node) for name, node in now.nodes.items()}
    for name, node in now.nodes.items():
        before = then.get(name, Node())
        if node.is_read and not before.is_known:
            found.added.append(name)
        for key, each in node.findings.items():
            of, earlier = OfNode(name, key), before.findings.get(key)
            # Beside fewer nodes the same finding may be worth less.
            if earlier is None or not _not_read(of, earlier, now):
                _sort(of, earlier, each.severity, found)
        for key, known in before.findings.items():
            if key in node.findings:
                continue
            of = OfNode(name, key)
            if why := _why_not_judged(of, known, now, unread):
                found.unjudged[of] = why
            else:
                found.gone.append(of)
        for fact, text in node.facts.items():
            if (value := before.facts.get(fact)) != text:
                found.facts.append((name, fact, value, text))
    return found


def _sort(of: OfNode, before: Known | None, severity: Severity, found: Difference) -> None:
    if before is None:
        found.absent_before.append(of)
    elif before.severity != severity:
        worse = is_worse(severity, before.severity)
        (found.worse if worse else found.better).append(of)


def _unread_since(before: Node, now: Node) -> float:
    """Return since which report a node has the last of its values that cannot be read."""
    unread = (key for key in now.findings if key.rule.endswith(_UNREADABLE))
    known = (before.findings.get(key) for key in unread)
    return max((inf if each is None else each.since for each in known), default=-1)


def _why_not_judged(of: OfNode, known: Known, now: Snapshot, unread: Mapping[str, float]) -> str:
    """Return why a report without a finding cannot say that it is gone; empty where it can.

    A rule may look at any value of the node; one between nodes, at those of all nodes.
    """
    if of.node not in now.read:
        return f"the node is {now.nodes[of.node].facts[ANSWER]}"
    rule = of.key.rule
    if why := now.why_off(of.node, rule):
        return why
    for option in sorted(known.asked - now.asked):
        if _MORE[option] == rule.split(".")[0]:
            return f"found with --{option}"
    if rule.endswith(_UNREADABLE):
        return ""
    if lacking := _not_read(of, known, now):
        return f"{lacking[0]} was not read"
    if any(unread[name] > known.since for name in _around(of, known, now)):
        return "a value could not be read"
    return ""


def _around(of: OfNode, known: Known, now: Snapshot) -> set[str]:
    """Return the nodes that decide about a finding."""
    rule = RULES.get(of.key.rule)
    if rule is None or not rule.has_peers:
        return {of.node}
    return {of.node, *(known.nodes & now.peers if now.peers else known.nodes)}


def _not_read(of: OfNode, known: Known, now: Snapshot) -> list[str]:
    return sorted(_around(of, known, now) - now.read)

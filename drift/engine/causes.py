"""Root causes: which finding of the report explains another one, followed to the first of all."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from gpu_node.drift.engine.finding import Finding, Root
from gpu_node.drift.engine.rule import RULES, Cause
from gpu_node.drift.engine.subject import Node, RootOnly

_Known = Mapping[tuple[str, str], Sequence[Finding]]
_UNREADABLE = (Cause("ssh.sudo-refused", of=(RootOnly,)),)


def with_roots(findings: Mapping[str, list[Finding]]) -> dict[str, list[Finding]]:
    """Return the findings of nodes, each with its root where another of them explains it.

    A cause counts only where it is a finding itself: on the same node, or on the node that the
    finding is about.
    """
    known: dict[tuple[str, str], list[Finding]] = defaultdict(list)
    for name, each in findings.items():
        for finding in each:
            known[name, finding.rule].append(finding)
    return {
        name: [each.model_copy(update={"root": _root(name, each, known)}) for each in found]
        for name, found in findings.items()
    }


def _root(name: str, finding: Finding, known: _Known) -> Root | None:
    """Return the last finding of the chain of causes; rules have no circle, so there is one."""
    root = None
    while (cause := _cause(name, finding, known)) is not None:
        name, finding = cause
        root = Root(node=name, rule=finding.rule, subject=finding.subject)
    return root


def _cause(name: str, finding: Finding, known: _Known) -> tuple[str, Finding] | None:
    """Return the finding that explains another one, and its node: the first cause that is there."""
    rule = RULES.get(finding.rule)
    for cause in rule.because_of if rule is not None else _UNREADABLE:
        if cause.of and not isinstance(finding.about, cause.of):
            continue
        if finding.about is None or not cause.explains(finding.about):
            continue
        place = name
        if cause.where == "peer":
            if not isinstance(finding.about, Node):
                continue
            place = finding.about.node
        for each in known.get((place, cause.rule), ()):
            if _explains(cause, each, name, finding):
                return place, each
    return None


def _explains(cause: Cause, found: Finding, name: str, finding: Finding) -> bool:
    """Whether a finding of the cause's rule explains a finding about the node of that name."""
    if found.about is None or finding.about is None or not cause.when(found.about):
        return False
    if cause.where == "same":
        return finding.about.is_same(found.about)
    if cause.where == "peer":
        return not isinstance(found.about, Node) or found.about.node == name
    return True

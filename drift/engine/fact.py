"""A fact of the report: its class, its value as text, and the rules that mark it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from gpu_node.drift.engine.finding import Finding
from gpu_node.drift.engine.rule import Rule
from gpu_node.drift.engine.subject import Package
from gpu_node.facts.node import NodeState
from gpu_node.facts.probe.bounds import in_words
from gpu_node.inventories.schema import NodeWanted

Class = Literal["must-equal", "per-model", "per-host"]


@dataclass(frozen=True)
class Fact:
    """A fact that the report shows for each node and that is compared between nodes.

    `marked_by` are the rules, or `rule:subject`, whose findings say this value is wrong; `of`
    returns the text of the value, or None where it could not be read. `rule` is the one between
    nodes that reports a difference; none of a fact that may differ. `is_managed` says whether the
    inventory names the wanted value, `applies` whether a node is asked at all. `explained_by` are
    rules of whose findings a difference from other nodes is only a consequence, beside those that
    mark it; `follows` is a fact whose difference brings one of this fact. `unmet` says whether the
    value is another one than the inventory names for the node. `label`: what `rule` calls it, where
    that is not its name, and `package` the one it is about, where that names an environment as
    well. `is_last`: it is shown after the facts of all areas. `compares` says
    whether a node's value is compared with those of others; it is shown in any case. `why`
    returns why an answer that was read has no value, such as a program that prints no version.
    """

    name: str
    comparison: Class
    marked_by: tuple[Rule | str, ...]
    of: Callable[[NodeState], str | None]
    rule: Rule | None = None
    is_managed: Callable[[NodeWanted], bool] = lambda wanted: False
    applies: Callable[[NodeState], bool] | None = None
    explained_by: tuple[Rule, ...] = ()
    follows: str = ""
    unmet: Callable[[NodeState, NodeWanted], bool] | None = None
    label: str = ""
    package: Package | None = None
    is_last: bool = False
    compares: Callable[[NodeState], bool] = lambda node: True
    why: Callable[[NodeState], str] = lambda node: ""

    @property
    def area(self) -> str:
        return self.name.split(".")[0]

    @property
    def subject(self) -> str:
        """What the rule between nodes calls it."""
        return self.label or self.name

    @property
    def marks(self) -> frozenset[str]:
        """The marks of findings (`marks_of`) that say this value is wrong."""
        return frozenset(each.id if isinstance(each, Rule) else each for each in self.marked_by)

    def is_asked(self, node: NodeState) -> bool:
        """Whether a node has this fact: some ask about what the inventory names alone."""
        try:
            return self.applies is None or self.applies(node)
        except Exception:  # as in value
            return True

    def is_compared(self, node: NodeState) -> bool:
        """Whether a node has this fact, and it is compared with that of other nodes."""
        try:
            return self.is_asked(node) and self.compares(node)
        except Exception:  # as in value
            return True

    def value(self, node: NodeState) -> str | None:
        """Return the text of a node's value; None where it could not be read, or not be made."""
        try:
            return self.of(node)
        except Exception:  # of whatever class: `broken` returns it
            return None

    def broken(self, node: NodeState) -> str | None:
        """Return why no value can be made of a node's answer; None where one can."""
        try:
            if self.applies is None or self.applies(node):
                self.of(node)
        except Exception as error:  # of whatever class: an answer of the node's made it
            return in_words(error)
        return None

    def unread(self, node: NodeState) -> str:
        """Return why a node has no value, though its answer could be read; empty where it has one.

        Of an answer that could not be read, that is the finding (`engine.check`).
        """
        is_asked = self.is_asked(node) and self.value(node) is None
        return self.why(node) if is_asked else ""

    def is_marked(self, findings: Iterable[Finding]) -> bool:
        """Whether one of `findings` is about this fact."""
        own = {f"{self.rule.id}:{self.subject}"} if self.rule else set()
        return not marks_of(findings).isdisjoint(self.marks | own)

    def is_unmet(self, node: NodeState, wanted: NodeWanted) -> bool:
        """Whether a node has another value than its inventory entry names."""
        try:
            return self.unmet is not None and self.unmet(node, wanted)
        except Exception:  # of whatever class: the rule that judges the value reports it
            return True


def marks_of(findings: Iterable[Finding]) -> frozenset[str]:
    """Return what findings mark: each one's rule, alone and with its subject."""
    marks: set[str] = set()
    for finding in findings:
        marks |= {finding.rule, f"{finding.rule}:{finding.subject}"}
        if isinstance(finding.about, Package):  # the mark is for all environments
            marks.add(f"{finding.rule}:{finding.about.package}")
    return frozenset(marks)

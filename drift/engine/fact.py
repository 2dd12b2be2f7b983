"""A fact of the report: a row of drift/AREA/shown.yml, and the text of a node's value."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, TypeVar

from gpu_node.drift.engine.finding import Finding, Severity, Who
from gpu_node.drift.engine.rows import Part, has_key, part_of, row_of
from gpu_node.drift.engine.subject import Package, Subject
from gpu_node.facts.node import NodeState
from gpu_node.facts.probe.bounds import in_words
from gpu_node.inventories.wanted import NodeWanted

Class = Literal["must-equal", "per-model", "per-host"]
_CLASSES: dict[str, Class] = {"": "per-host", "everywhere": "must-equal", "per-model": "per-model"}
Value = Callable[[NodeState], str | None]
Text = TypeVar("Text", bound=Callable[[Any], str | None])


class Row(Part):
    """What a row says of a fact."""

    # Where it is in a node's state. A function with @shows returns the text of what is there, and
    # without `of` that of a node.
    of: str = ""
    # Which nodes must have the same value, and the rule that reports others; else any may differ.
    same: Literal["", "everywhere", "per-model"] = ""
    rule: str = ""
    # The rules, or RULE:SUBJECT, whose findings say that the value is wrong.
    marked_by: tuple[str, ...] = ()
    # The rules of whose findings a difference is a consequence, beside those.
    explained_by: tuple[str, ...] = ()
    # A fact whose difference brings one of this fact.
    follows: str = ""
    # The key with which the inventory names the value: where all nodes have it, values may differ.
    managed: str = ""
    # It is shown after the facts of all areas.
    last: bool = False
    # Cause, fix, severity, and who does it, where those of the rule do not fit.
    why: str = ""
    manual: str = ""
    severity: Severity | None = None
    who: Who | None = None

    @property
    def rules(self) -> set[str]:
        """The rules that it names."""
        marks = (each.partition(":")[0] for each in self.marked_by)
        return {*filter(None, [self.rule]), *marks, *self.explained_by}


@dataclass(frozen=True)
class Fact:
    """A fact that the report shows for each node and that is compared between nodes.

    `of` returns the text of the value, or None where it could not be read. `applies` says whether
    a node is asked at all, and `compares` whether its value is compared with those of others; it is
    shown in any case. `lacks` returns why an answer that was read has no value, such as a program
    that prints no version. `is_managed` says whether the inventory names the wanted value, and
    `unmet` whether the node has another one. `about`: what the rule calls it, if not by its name.
    """

    name: str
    row: Row
    of: Value
    applies: Callable[[NodeState], bool] | None = None
    compares: Callable[[NodeState], bool] = lambda node: True
    lacks: Callable[[NodeState], str] = lambda node: ""
    is_managed: Callable[[NodeWanted], bool] = lambda wanted: False
    unmet: Callable[[NodeState, NodeWanted], bool] = lambda node, wanted: False
    about: Subject | str = ""

    @property
    def area(self) -> str:
        return self.name.split(".")[0]

    @property
    def comparison(self) -> Class:
        """Where nodes may differ, as the JSON report says it."""
        return _CLASSES[self.row.same]

    @property
    def subject(self) -> str:
        """What the rule between nodes calls it."""
        return str(self.about or self.name)

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
        except Exception:  # of whatever class: `unread` returns it
            return None

    def unread(self, node: NodeState) -> str:
        """Return why a node has no value, though its answer could be read; empty where it has one.

        Of an answer that could not be read, that is the finding (`engine.check`).
        """
        try:
            is_asked = self.applies is None or self.applies(node)
            return self.lacks(node) if is_asked and self.of(node) is None else ""
        except Exception as error:  # of whatever class: an answer of the node's made it
            return f"not understood: {in_words(error)}"

    def is_marked(self, findings: Iterable[Finding]) -> bool:
        """Whether one of `findings` is about this fact."""
        return not marks_of(findings).isdisjoint(
            {*self.row.marked_by, f"{self.row.rule}:{self.subject}"}
        )

    def is_unmet(self, node: NodeState, wanted: NodeWanted) -> bool:
        """Whether a node has another value than its inventory entry names."""
        try:
            return self.unmet(node, wanted)
        except Exception:  # of whatever class: the rule that judges the value reports it
            return True


SHOWN: dict[str, Fact] = {}


def shows(
    name: str,
    applies: Callable[[NodeState], bool] | None = None,
    compares: Callable[[NodeState], bool] = lambda node: True,
    lacks: Callable[[NodeState], str] = lambda node: "",
) -> Callable[[Text], Text]:
    """Make a fact of the row of this name in the area's shown.yml, and of a value's function.

    The function is given what the node has at the row's path, or the node where it has none.
    """

    def register(text: Text) -> Text:
        made = row_of(Row, name, "shown")
        if made is None or name in SHOWN:
            wrong = "two functions return it" if made else "shown.yml has no such row"
            raise ValueError(f"{name}: {wrong}")
        managed = partial(has_key, key=made.managed)
        of = partial(_at_path, made.of, text) if made.of else text
        SHOWN[name] = Fact(name, made, of, applies, compares, lacks, managed)
        return text

    return register


def _at_path(path: str, text: Callable[[Any], str | None], node: NodeState) -> str | None:
    value = part_of(node, path)
    return None if value is None else text(value)


def marks_of(findings: Iterable[Finding]) -> frozenset[str]:
    """Return what findings mark: each one's rule, alone and with its subject."""
    marks: set[str] = set()
    for finding in findings:
        marks |= {finding.rule, f"{finding.rule}:{finding.subject}"}
        if isinstance(finding.about, Package):  # the mark is for all environments
            marks.add(f"{finding.rule}:{finding.about.package}")
    return frozenset(marks)

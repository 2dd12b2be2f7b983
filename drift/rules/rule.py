"""The register of rules: an id, a severity, a pure check of one area's found and wanted state."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from drift.finding import Finding, Severity


@dataclass(frozen=True)
class Fault:
    """What a check yields; the rule's id, severity and step are added by the register."""

    subject: str
    found: str
    wanted: str
    cause: str
    fix: str
    fixable: bool = True
    # Where a rule's own severity does not fit this fault.
    severity: Severity | None = None


Check = TypeVar("Check", bound=Callable[[Any, Any], Iterator[Fault]])


@dataclass(frozen=True)
class Rule:
    """A named check; `summary` is the first line of its docstring, `area` its step as well.

    A `whole` check takes the node's found and wanted state, not the area's alone.
    """

    id: str
    severity: Severity
    check: Callable[[Any, Any], Iterator[Fault]]
    whole: bool = False

    @property
    def area(self) -> str:
        """The area whose found and wanted state the check takes."""
        return self.id.split(".")[0]

    @property
    def summary(self) -> str:
        """What the rule says is wrong, in one sentence."""
        return (self.check.__doc__ or "").strip().splitlines()[0]

    def findings(self, found: object, wanted: object) -> Iterator[Finding]:
        """Yield the findings of this rule about one node, given the state of all its areas."""
        states = (found, wanted)
        if not self.whole:
            states = (getattr(found, self.area), getattr(wanted, self.area))
        for fault in self.check(*states):
            said = {**vars(fault), "severity": fault.severity or self.severity}
            yield Finding(rule=self.id, step=self.area, **said)


RULES: dict[str, Rule] = {}


def rule(rule_id: str, severity: Severity, whole: bool = False) -> Callable[[Check], Check]:
    """Register a check under its stable id."""

    def register(check: Check) -> Check:
        if rule_id in RULES:
            raise ValueError(f"two rules are called {rule_id}")
        RULES[rule_id] = Rule(rule_id, severity, check, whole)
        return check

    return register

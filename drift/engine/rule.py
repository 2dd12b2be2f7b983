"""The register of rules: an id, a severity, a pure check of one area's found and wanted state."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from drift.among import Among
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


Check = TypeVar("Check", bound=Callable[..., Iterator[Fault]])


@dataclass(frozen=True)
class Rule:
    """A named check; `summary` is the first line of its docstring, `area` its step as well.

    A `whole` check takes the node's found and wanted state, not the area's alone; one `between`
    nodes takes those and the nodes around it (`Among`).
    """

    id: str
    severity: Severity
    check: Callable[..., Iterator[Fault]]
    whole: bool = False
    between: bool = False

    @property
    def area(self) -> str:
        """The area whose found and wanted state the check takes."""
        return self.id.split(".")[0]

    @property
    def summary(self) -> str:
        """What the rule says is wrong, in one sentence."""
        return (self.check.__doc__ or "").strip().splitlines()[0]

    def findings(self, found: object, wanted: object, among: Among) -> Iterator[Finding]:
        """Yield the findings of this rule about one node, given the state of all its areas."""
        given: tuple[object, ...] = (found, wanted)
        if self.between:
            given = (found, wanted, among)
        elif not self.whole:
            given = (getattr(found, self.area), getattr(wanted, self.area))
        for fault in self.check(*given):
            said = {**vars(fault), "severity": fault.severity or self.severity}
            yield Finding(rule=self.id, step=self.area, **said)


RULES: dict[str, Rule] = {}


def rule(
    rule_id: str, severity: Severity, whole: bool = False, between: bool = False
) -> Callable[[Check], Check]:
    """Register a check under its stable id."""

    def register(check: Check) -> Check:
        if rule_id in RULES:
            raise ValueError(f"two rules are called {rule_id}")
        RULES[rule_id] = Rule(rule_id, severity, check, whole, between)
        return check

    return register

"""The plan for a node: what its one probe found, what the inventory wants, and the findings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from gpu_node.drift.engine.finding import Finding, Severity
from gpu_node.drift.engine.nodes import Nodes
from gpu_node.drift.engine.rule import Rule
from gpu_node.drift.engine.subject import Subject
from gpu_node.facts.node import NodeState
from gpu_node.inventories.schema import NodeWanted

S = TypeVar("S", bound=Subject)


@dataclass(frozen=True)
class Plan:
    """Everything that steps need: they do not read a node themselves."""

    wanted: NodeWanted
    state: NodeState
    findings: tuple[Finding, ...]
    # The other nodes of the cluster, and what was found on them.
    nodes: Nodes
    # Whether steps may hurt a running job: --data allow_disruption=true.
    allow_disruption: bool = False
    # Whether a node may be rebooted if nothing else helps: --data reboot=true.
    reboot: bool = False
    # The training user.
    trainer: str = "root"
    # Whether an administrator's locks on packages are replaced: --data override_locks=true.
    override_locks: bool = False
    # What rules find that the inventory turns off: only guards read it.
    muted: tuple[Finding, ...] = ()

    def findings_of(self, *rules: Rule) -> tuple[Finding, ...]:
        """Return the findings of `rules`, including those that the deploy cannot repair."""
        ids = {rule.id for rule in rules}
        return tuple(finding for finding in self.findings if finding.rule in ids)

    def guards(self, *rules: Rule) -> tuple[Finding, ...]:
        """Return the findings by which a step must stop, also of rules that are turned off."""
        ids = {rule.id for rule in rules}
        muted = tuple(each for each in self.muted if each.rule in ids)
        return (*self.findings_of(*rules), *muted)

    def repairs(
        self, *rules: Rule, about: Subject | None = None, severity: Severity | None = None
    ) -> bool:
        """Whether one of `rules` has a finding, about that subject, that the deploy can repair."""
        return any(
            each.fixable and about in (None, each.about) and severity in (None, each.severity)
            for each in self.findings_of(*rules)
        )

    def subjects(self, kind: type[S], *rules: Rule, severity: Severity | None = None) -> list[S]:
        """Return the subjects of a kind that the deploy can repair by `rules`, each once."""
        repaired = [each for each in self.findings_of(*rules) if each.fixable]
        subjects = [each.about for each in repaired if severity in (None, each.severity)]
        return list(dict.fromkeys(subject for subject in subjects if isinstance(subject, kind)))

    @property
    def is_repaired(self) -> bool:
        """Whether the deploy can repair one of the findings."""
        return any(finding.fixable for finding in self.findings)

    @property
    def manual(self) -> list[Finding]:
        """The errors that the deploy cannot repair: they need manual action."""
        return [
            finding
            for finding in self.findings
            if finding.severity == "error" and not finding.fixable
        ]

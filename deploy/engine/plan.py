"""The plan for a node: what was found and wanted, and the findings; what areas add to a run."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from typing import TypeVar, cast

from pyinfra.api import Host

from gpu_node.drift.engine.finding import Finding, Severity
from gpu_node.drift.engine.nodes import Nodes
from gpu_node.drift.engine.rule import Rule
from gpu_node.drift.engine.subject import Subject
from gpu_node.facts.areas import AREAS, area_folder
from gpu_node.facts.node import NodeState
from gpu_node.inventories.wanted import NodeWanted

S = TypeVar("S", bound=Subject)
T = TypeVar("T")


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


@dataclass(frozen=True)
class Hooks:
    """What an area adds to a run beside its steps: `HOOKS` in deploy/AREA/__init__.py."""

    # Settles what an interrupted run has left on a node, before anything else; whether it did.
    settle: Callable[[Host, NodeState], bool] = lambda host, state: False
    # Returns the states of nodes with what they try together, before the run and at its proof.
    together: Callable[[Mapping[Host, NodeState]], Mapping[Host, NodeState]] = dict
    # Raises ProbeError if a run cannot change a node.
    require: Callable[[Host, NodeState], None] = lambda host, state: None
    # Whether a run changes a node although no finding is fixable.
    changes: Callable[[Plan], bool] = lambda plan: False
    # Returns the programs that may hold a GPU while a script disturbs jobs in a way that it names.
    harmless: Callable[[str], tuple[str, ...]] = lambda disturbs: ()
    # The variables that scripts get by their line `# Given: NAME ...`.
    given: Mapping[str, str] = field(default_factory=dict)


def together(answers: Mapping[Host, T]) -> dict[Host, T]:
    """Return the answers of nodes, of which states have what these try together."""
    states: Mapping[Host, NodeState]
    states = {host: each for host, each in answers.items() if isinstance(each, NodeState)}
    for hook in hooks():
        states = hook.together(states)
    return {**answers, **cast(Mapping[Host, T], states)}


@cache
def hooks() -> tuple[Hooks, ...]:
    """Return the hooks of the areas that have some, in the order of the register."""
    there = [name for name in AREAS if find_spec(f"gpu_node.deploy.{name}")]
    folders = [area_folder("deploy", name, "the area's steps") for name in there]
    return tuple(folder.HOOKS for folder in folders if hasattr(folder, "HOOKS"))

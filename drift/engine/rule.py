"""A rule: an id, a severity, a check of found and wanted states, and the steps that repair it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Literal, get_args

from gpu_node.drift.engine.finding import Finding, Severity
from gpu_node.drift.engine.neighbours import Among
from gpu_node.drift.engine.subject import Subject, Thing
from gpu_node.facts.node import NodeState
from gpu_node.inventories.fields.kinds import Switch
from gpu_node.inventories.keys import keys_of
from gpu_node.inventories.wanted import NodeWanted, unset


@dataclass(frozen=True)
class Fault:
    """What a check yields; the rule's id, severity and step are added by the rule."""

    # A text alone is the name of a thing that needs no data.
    subject: Subject | str
    found: str
    wanted: str
    cause: str
    fix: str
    fixable: bool = True
    # Where the rule's first severity does not fit this fault: another that the rule declares.
    severity: Severity | None = None


Check = Callable[..., Iterator[Fault]]


@dataclass(frozen=True)
class Cause:
    """A rule, by its id, whose findings explain those of another rule.

    `where` its finding is: "here" on the same node, "same" also about the same subject, "peer" on
    the node that the explained finding is about. `of`: only findings about such subjects are
    explained, and of these those that `explains` says. `when`: only findings about such subjects
    explain.
    """

    rule: str
    where: Literal["here", "same", "peer"] = "here"
    of: tuple[type[Subject], ...] = ()
    when: Callable[[Subject], bool] = lambda about: True
    explains: Callable[[Subject], bool] = lambda about: True


def on_node(
    rule: Rule,
    of: tuple[type[Subject], ...] = (),
    when: Callable[[Subject], bool] = lambda about: True,
    explains: Callable[[Subject], bool] = lambda about: True,
) -> Cause:
    """Return a rule as the cause of findings on the same node."""
    return Cause(rule.id, "here", of, when, explains)


def on_subject(rule: Rule, explains: Callable[[Subject], bool] = lambda about: True) -> Cause:
    """Return a rule as the cause of findings on the same node about the same subject."""
    return Cause(rule.id, "same", explains=explains)


def on_peer(rule: Rule, when: Callable[[Subject], bool] = lambda about: True) -> Cause:
    """Return a rule as the cause of findings about the node on which its own finding is."""
    return Cause(rule.id, "peer", when=when)


@dataclass(frozen=True, eq=False)
class Rule:
    """A check under a stable id; calling the rule runs the check alone.

    A `whole` check takes the node's found and wanted state, not the area's alone; one `between`
    nodes takes those and the nodes around it (`Among`). One that `compares` is both, and reports
    which values of the report are unlike those of other nodes: it is judged after all others. One
    that needs `several` nodes is not judged where the inventory has a single one. Of an area that
    an inventory has no key for, the wanted state is None. `steps` names the folders of deploy/
    whose step repairs the findings that are fixable; a rule without one has no such finding.

    A rule that is judged `always` needs no wanted value. Where the inventory does not name its
    area, the check gets the area's section with nothing set (None where a section needs a value),
    and no finding is fixable: `key` is the one to add. Any other rule is judged only where the
    inventory has `key`, or one of `or_keys`.
    """

    id: str
    severity: Severity
    check: Check
    whole: bool = False
    between: bool = False
    compares: bool = False
    several: bool = False
    steps: tuple[str, ...] = ()
    # The rules whose findings explain those of this one; the first that has a finding counts.
    because_of: tuple[Cause, ...] = ()
    # The area or the rule of whose line in the concise report its findings are a part; empty: none.
    under: str = ""
    # Sentences: why it hurts, what a person does about it, and what the deploy changes.
    why: str = ""
    manual: str = ""
    repair: str = ""
    # What a user without root can do where the manual repair needs root; empty: it does not.
    alone: str = ""
    always: bool = False
    # Empty: the key of the area, see `needed_key`.
    key: str = ""
    or_keys: tuple[str, ...] = ()
    # Those of its findings that `severity` does not fit.
    or_severities: tuple[Severity, ...] = ()

    def __call__(self, *given: object) -> Iterator[Fault]:
        """Yield the faults in what the check is given."""
        return self.check(*given)

    @property
    def area(self) -> str:
        """The area whose found and wanted state the check takes."""
        return self.id.split(".")[0]

    @property
    def needed_key(self) -> str:
        """The key of the inventory that it needs, or that lets the deploy repair what it finds."""
        return self._first.partition(_AND)[0]

    @property
    def _first(self) -> str:
        return self.key or _KEYS.get(self.area, self.area)

    @property
    def judged(self) -> str:
        """When it is judged, and with which key the deploy repairs what it finds."""
        groups = " or ".join(" and ".join(map(_written, each)) for each in self.needs)
        has = ", and ".join(each for each in ("several nodes" * self.several, groups) if each)
        when = f"where the inventory has {has}" if has else "always"
        return f"{when}; repaired with `{self.needed_key}`" if self.repair and not groups else when

    @property
    def needs(self) -> tuple[tuple[str, ...], ...]:
        """The groups of keys without one of which it is not judged; none: it always is.

        An area without a key in the inventory is judged on every node.
        """
        if self.always or self.needed_key.partition(".")[0] not in NodeWanted.model_fields:
            return ()
        return tuple(tuple(each.split(_AND)) for each in (self._first, *self.or_keys))

    def is_judged(self, wanted: NodeWanted) -> bool:
        """Whether the inventory has what `judged` says."""
        return not self.needs or any(
            all(_has(wanted, key) for key in group) for group in self.needs
        )

    @property
    def severities(self) -> tuple[Severity, ...]:
        """Those that its findings may have, the usual one first."""
        return (self.severity, *self.or_severities)

    @property
    def summary(self) -> str:
        """What the rule checks, in one sentence: the first line of its docstring."""
        return (self.check.__doc__ or "").strip().partition("\n")[0]

    def findings(self, found: object, wanted: object, among: Among) -> Iterator[Finding]:
        """Yield the findings of this rule about one node, given the state of all its areas."""
        if self.several and not among.others and len(among.found) < 2:
            return
        given: tuple[object, ...] = (found, wanted)
        if self.between:
            given = (found, wanted, among)
        elif not self.whole:
            section = getattr(wanted, self.area, None)
            given = (getattr(found, self.area), unset(self.area) if section is None else section)
        for fault in self(*given):
            if fault.fixable and not self.steps:
                raise ValueError(f"{self.id} has a fixable finding, and names no step")
            if fault.severity not in (None, *self.severities):
                raise ValueError(f"{self.id} does not declare the severity {fault.severity}")
            about = fault.subject if isinstance(fault.subject, Subject) else Thing(fault.subject)
            is_held = fault.fixable and not self._may_repair(about, found, wanted)
            way = f"set {self.needed_key} in the inventory, and gpu-node deploy repairs it; or: "
            yield Finding(
                rule=self.id,
                severity=fault.severity or self.severity,
                subject=str(about),
                about=about,
                found=fault.found,
                wanted=fault.wanted,
                cause=fault.cause,
                fix=f"{way}{fault.fix}" if is_held else fault.fix,
                fixable=fault.fixable and not is_held,
                step=self.area,
            )

    def _may_repair(self, about: Subject, found: object, wanted: object) -> bool:
        """Whether the inventory names what a finding is about: what it does not name is kept.

        It names no Python environment that the probe has found without it.
        """
        if not self.always:
            return True
        if isinstance(wanted, NodeWanted) and not is_named(self.area, wanted):
            return False
        environment = getattr(about, "environment", None)
        return not isinstance(found, NodeState) or environment not in found.nccl.discovered


RULES: dict[str, Rule] = {}
# Between keys of which a rule needs each.
_AND = " and "


# The key of each area that a person sets first.
_KEYS = {
    "driver": "driver.version",
    "shm": "shm.size",
    "limits": "limits.nofile",
    "toolchain": "toolchain.packages",
    "nccl": "nccl.environments",
    "ssh": "ssh.mesh",
    "network": "network.interface",
    "workspace": "workspace.path",
}


def is_named(area: str, wanted: NodeWanted) -> bool:
    """Whether the inventory sets values for an area, or has no key for it at all."""
    return area not in NodeWanted.model_fields or getattr(wanted, area) is not None


def _has(wanted: NodeWanted, key: str) -> bool:
    """Whether a key has a value; a switch is to be on."""
    value: object = wanted
    for name in key.split("."):
        value = getattr(value, name, None)
    return value is not None and value is not False


@cache
def _switches() -> frozenset[str]:
    words = get_args(Switch)[-1].description
    keys = keys_of(NodeWanted)
    return frozenset(".".join(map(str, each.path)) for each in keys if each.allowed == words)


def _written(key: str) -> str:
    return f"`{key}: true`" if key in _switches() else f"`{key}`"


def is_on(rule_id: str, wanted: NodeWanted) -> bool:
    """Whether the inventory leaves a rule on: `checks` has rules and areas; a rule's own counts."""
    checks = wanted.checks
    return not checks or checks.get(rule_id, checks.get(rule_id.partition(".")[0], True))


def rule(
    rule_id: str,
    severity: Severity | tuple[Severity, ...],
    whole: bool = False,
    between: bool = False,
    compares: bool = False,
    several: bool = False,
    step: str | tuple[str, ...] = (),
    because_of: tuple[Cause, ...] = (),
    under: str = "",
    *,
    always: bool = False,
    key: str = "",
    or_keys: tuple[str, ...] = (),
    why: str,
    manual: str,
    repair: str = "",
    alone: str = "",
) -> Callable[[Check], Rule]:
    """Make a rule of a check and register it under its id.

    `severity` is that of its findings; of several, the first is that of those that name none.

    `why` the fault hurts, what a person does about it (`manual`), and what the deploy changes on
    the node to repair it (`repair`, where it names a step) are sentences: docs/rules.md lists them.
    `under` names the area, or the rule, that one step repairs with it: they are one problem.
    `several`: it is about a node among others, and is not judged where there are none.
    `always`: it needs no wanted value, and is judged whatever the inventory names. `key`: the key
    that it needs ("A and B": both), or that lets the deploy repair what it finds; without it the
    area's first. `or_keys`: others with which it is judged, too.
    `alone`: what a user without root can do, where the manual repair needs root.
    """

    def register(check: Check) -> Rule:
        if rule_id in RULES:
            raise ValueError(f"two rules are called {rule_id}")
        steps = (step,) if isinstance(step, str) else step
        severities = (severity,) if isinstance(severity, str) else severity
        RULES[rule_id] = made = Rule(
            rule_id,
            severities[0],
            check,
            whole or compares,
            between or compares,
            compares,
            several,
            steps,
            because_of,
            under,
            why,
            manual,
            repair,
            alone,
            always,
            key,
            or_keys,
            severities[1:],
        )
        return made

    return register

"""A rule: an id, a severity, a check of found and wanted states, and the steps that repair it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, dataclass
from functools import cache, cached_property
from typing import Literal, get_args

from gpu_node.drift.engine.areas import hooks, hooks_of
from gpu_node.drift.engine.finding import OR, Finding, Severity, Way, Who
from gpu_node.drift.engine.nodes import Nodes
from gpu_node.drift.engine.subject import Subject, Thing
from gpu_node.facts.node import NodeState
from gpu_node.inventories.fields.kinds import Switch
from gpu_node.inventories.keys import keys_of
from gpu_node.inventories.wanted import NodeWanted, unset


@dataclass(frozen=True)
class Fault:
    """What a check yields; the rule adds what it says of all its faults."""

    # A text alone is the name of a thing that needs no data.
    subject: Subject | str
    found: str
    wanted: str
    # Where the rule's `why` and `manual` lack what this fault knows: a name, a number, a place.
    cause: str = ""
    fix: str = ""
    # Whether the rule's step repairs it; None: if the rule has one.
    fixable: bool | None = None
    # Where the rule's first severity does not fit this fault: another that the rule declares.
    severity: Severity | None = None
    # Whether it stops the jobs that the rule says.
    stops: bool = True
    # Who does what `fix` says, where that is not whom the rule names.
    who: Who | None = None
    # The way before it: a key of the inventory with which the deploy repairs it.
    deploy: str = ""


Check = Callable[..., Iterator[Fault]]
# An error stops no job, every one, those of several nodes, or those whose launcher logs in. Of
# "asks": it is about what a job asks of the node, and a warning may stop that. Of "unknown": it
# hides what may stop one. tests/drift/stops.yml has the source of each.
Stops = Literal["", "every", "several", "logins", "asks", "unknown"]


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

    The check takes the area's found and wanted state. Of an area that the inventory has no key for,
    the wanted state is that section with nothing set, or None where a section needs a value.
    docs/rules.md lists all rules.
    """

    id: str
    # That of the findings that name none; `or_severities` are the others that a finding may have.
    severity: Severity
    check: Check
    _: KW_ONLY
    or_severities: tuple[Severity, ...] = ()
    # The check takes the node's found and wanted state, not the area's alone.
    whole: bool = False
    # It takes the nodes around it (`Nodes`) besides.
    between: bool = False
    # It is both, and reports which values of the report are unlike those of other nodes: it is
    # judged after all others.
    compares: bool = False
    # It is about a node among others, and is not judged where the inventory has a single one.
    several: bool = False
    # It is judged of a server that is to become a node, and of no node.
    newcomers: bool = False
    # The command that alone judges it, of what it gives as the task.
    command: str = ""
    # It needs no wanted value. Where the inventory does not name the area no finding is fixable:
    # `key` is the one to add. Any other rule is judged only with `key`, or with one of `or_keys`.
    always: bool = False
    # "A and B" is both; empty: the first of the area, see `needed_key`.
    key: str = ""
    or_keys: tuple[str, ...] = ()
    # The folders of deploy/ whose step repairs the findings that are fixable; none: no finding is.
    steps: tuple[str, ...] = ()
    # The rules whose findings explain those of this one; the first that has a finding counts.
    because_of: tuple[Cause, ...] = ()
    # Facts that could not be read: its finding explains those about such subjects.
    explains_unread: tuple[type[Subject], ...] = ()
    # The area or the rule that one step repairs with it: they are one problem in the report.
    under: str = ""
    # Which jobs an error of it stops.
    stops: Stops = ""
    # Why it hurts, and what a person does about it: the cause and the fix of each fault that has no
    # better ones. Both begin without a capital, and have no full stop.
    why: str = ""
    manual: str = ""
    # Who does the latter.
    who: Who = "user"
    # Sentences: what the deploy changes on the node, and below what a user without root can do
    # where the manual repair needs root.
    repair: str = ""
    alone: str = ""

    def __call__(self, *given: object) -> Iterator[Fault]:
        """Yield the faults in what the check is given."""
        return self.check(*given)

    @cached_property
    def area(self) -> str:
        """The area whose found and wanted state the check takes."""
        return self.id.split(".")[0]

    @cached_property
    def needed_key(self) -> str:
        """The key of the inventory that it needs, or that lets the deploy repair what it finds."""
        return self._first.partition(_AND)[0]

    @property
    def _first(self) -> str:
        return self.key or hooks_of(self.area).key or self.area

    @property
    def judged(self) -> str:
        """When it is judged, and with which key the deploy repairs what it finds."""
        if self.command:
            return f"by gpu-node {self.command} alone"
        if self.newcomers:
            return "by gpu-node onboard, of a server that is to become a node"
        groups = " or ".join(" and ".join(map(_written, need)) for need in self.needs)
        has = ", and ".join(each for each in ("several nodes" * self.several, groups) if each)
        when = f"where the inventory has {has}" if has else "always"
        return f"{when}; repaired with `{self.needed_key}`" if self.repair and not groups else when

    @cached_property
    def needs(self) -> tuple[tuple[str, ...], ...]:
        """The groups of keys without one of which it is not judged; none: it always is.

        An area without a key in the inventory is judged on every node.
        """
        if (
            self.always
            or self.newcomers
            or self.command
            or self.needed_key.partition(".")[0] not in NodeWanted.model_fields
        ):
            return ()
        return tuple(tuple(each.split(_AND)) for each in (self._first, *self.or_keys))

    def is_judged(self, wanted: NodeWanted) -> bool:
        """Whether the inventory has what `judged` says, and GPUs where the rule is about them."""
        has_keys = not self.needs or any(
            all(_has(wanted, key) for key in group) for group in self.needs
        )
        return has_keys and is_of(wanted, self.area, self.id)

    @property
    def severities(self) -> tuple[Severity, ...]:
        """Those that its findings may have, the usual one first."""
        return (self.severity, *self.or_severities)

    @property
    def summary(self) -> str:
        """What the rule checks, in one sentence: the first line of its docstring."""
        return (self.check.__doc__ or "").strip().partition("\n")[0]

    def findings(self, state: object, wanted: object, nodes: Nodes) -> Iterator[Finding]:
        """Yield the findings of this rule about one node, given the state of all its areas."""
        if nodes.newcomer is None and (self.newcomers or (self.several and _is_alone(nodes))):
            return
        if self.command and nodes.task is None:
            return
        given: tuple[object, ...] = (state, wanted)
        if self.between:
            given = (state, wanted, nodes)
        elif not self.whole:
            section = getattr(wanted, self.area, None)
            given = (getattr(state, self.area), unset(self.area) if section is None else section)
        for fault in self(*given):
            fixable = bool(self.steps) if fault.fixable is None else fault.fixable
            if fixable and not self.steps:
                raise ValueError(f"{self.id} has a fixable finding, and names no step")
            if fault.severity not in (None, *self.severities):
                raise ValueError(f"{self.id} does not declare the severity {fault.severity}")
            about = fault.subject if isinstance(fault.subject, Subject) else Thing(fault.subject)
            assumed = nodes.assumed.get(self.needed_key)
            is_held = fixable and bool(assumed or not self._may_repair(about, state, wanted))
            key = f"set {assumed or self.needed_key} in the inventory, "
            key += "and gpu-node deploy repairs it"
            by_deploy = fault.deploy or (key if is_held else "")
            ways = [Way("deploy", by_deploy)] if by_deploy else []
            ways.append(Way(fault.who or self.who, fault.fix or self.manual))
            yield Finding(
                rule=self.id,
                severity=fault.severity or self.severity,
                subject=str(about),
                about=about,
                found=fault.found,
                wanted=fault.wanted,
                cause=fault.cause or self.why,
                fix=OR.join(way.text for way in ways),
                ways=tuple(ways),
                fixable=fixable and not is_held,
                step=next(iter(self.steps), self.area),
                stops=fault.stops,
            )

    def _may_repair(self, about: Subject, state: object, wanted: object) -> bool:
        """Whether the inventory names what a finding is about: what it does not name is kept."""
        if not self.always:
            return True
        if isinstance(wanted, NodeWanted) and not is_named(self.area, wanted):
            return False
        return not isinstance(state, NodeState) or not any(
            hook.is_unnamed(about, state) for hook in hooks().values()
        )


def _is_alone(nodes: Nodes) -> bool:
    return all(peer.name == nodes.name for peer in nodes.peers) and len(nodes.states) < 2


RULES: dict[str, Rule] = {}
# Between keys of which a rule needs each.
_AND = " and "


def is_named(area: str, wanted: NodeWanted) -> bool:
    """Whether the inventory sets values for an area, or has no key for it at all."""
    return area not in NodeWanted.model_fields or getattr(wanted, area) is not None


def is_of(wanted: NodeWanted, area: str, name: str = "") -> bool:
    """Whether a rule, or a section, of an area counts on a node: without GPUs for jobs few do."""
    counting = hooks_of(area).of_cpu_nodes
    return not wanted.is_cpu_node or counting is None or name in counting


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
    return frozenset(".".join(map(str, key.path)) for key in keys if key.allowed == words)


def _written(key: str) -> str:
    return f"`{key}: true`" if key in _switches() else f"`{key}`"


def rule(
    rule_id: str,
    severity: Severity | tuple[Severity, ...],
    *,
    whole: bool = False,
    between: bool = False,
    compares: bool = False,
    several: bool = False,
    newcomers: bool = False,
    command: str = "",
    always: bool = False,
    key: str = "",
    or_keys: tuple[str, ...] = (),
    step: str | tuple[str, ...] = (),
    because_of: tuple[Cause, ...] = (),
    explains_unread: tuple[type[Subject], ...] = (),
    under: str = "",
    stops: Stops = "",
    why: str,
    manual: str,
    who: Who | None = None,
    repair: str = "",
    alone: str = "",
) -> Callable[[Check], Rule]:
    """Make a rule of a check and register it under its id; the words are the fields of `Rule`.

    Of several severities the first is that of the findings that name none. `who` is the user, but
    the administrator where the rule has a text for who is `alone`, or is about a new server.
    """

    def register(check: Check) -> Rule:
        if rule_id in RULES:
            raise ValueError(f"two rules are called {rule_id}")
        severities = (severity,) if isinstance(severity, str) else severity
        RULES[rule_id] = made = Rule(
            rule_id,
            severities[0],
            check,
            or_severities=severities[1:],
            whole=whole or compares,
            between=between or compares,
            compares=compares,
            several=several,
            newcomers=newcomers,
            command=command,
            always=always,
            key=key,
            or_keys=or_keys,
            steps=(step,) if isinstance(step, str) else step,
            because_of=because_of,
            explains_unread=explains_unread,
            under=under,
            stops=stops,
            why=why,
            manual=manual,
            who=who or ("administrator" if alone or newcomers else "user"),
            repair=repair,
            alone=alone,
        )
        return made

    return register

"""A rule: a row of drift/AREA/rules.yml, which has its texts, and the function that checks it."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Any, Generic, Literal, cast, get_args

from typing_extensions import TypeVar, override

from gpu_node.drift.engine.areas import hooks, hooks_of
from gpu_node.drift.engine.finding import OR, Explains, Finding, Severity, Way, Who
from gpu_node.drift.engine.nodes import Newcomer, Nodes
from gpu_node.drift.engine.relation import Relation
from gpu_node.drift.engine.rows import Part, Several, has_key, row_of
from gpu_node.drift.engine.subject import Subject, Thing
from gpu_node.drift.engine.switches import is_on
from gpu_node.facts.node import NodeState
from gpu_node.inventories.fields.kinds import Switch
from gpu_node.inventories.keys import keys_of
from gpu_node.inventories.wanted import NodeWanted, unset

_CAPITALS = re.compile("[A-Z_]{2,}")


@dataclass(frozen=True)
class Fault:
    """What a check yields; the rule adds what it says of all its faults."""

    # A text alone is the name of a thing that needs no data.
    subject: Subject | str
    found: str
    wanted: str
    # In place of the rule's `why` and `manual`, where those do not fit: see also `also`, `names`.
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
    # In place of the rule's `without_root`.
    alone: str = ""
    # The way before it: a key of the inventory with which the deploy repairs it.
    deploy: str = ""
    # Those of the row's `explained_by` that may explain this fault; None: each of them.
    explained_by: tuple[str, ...] | None = None
    # Whose findings it may explain: of each rule that names this one, or of none.
    explains: Explains = "all"
    # What this fault knows beside the rule's `why`, and before it.
    also: str = ""
    # What stands in place of words in capitals of `why` and `manual`: {"PATH": "/data"}.
    names: Mapping[str, str] = field(default_factory=dict)


def unknown(subject: str, state: NodeState, section: str) -> Fault:
    """Return the fault of what a node did not say: unknown is never equal."""
    reasons = {each.section: each.reason for each in state.unreadable}
    return Fault(
        subject=subject,
        found=f"unknown: {reasons.get(section, 'no answer')}",
        wanted="an answer",
        cause="what could not be read never counts as correct",
        fix=f"find out why there is no answer ({section}), then run again",
        severity="warning",
    )


# What a node has of an area, and what the inventory wants of it.
Here = TypeVar("Here", default=Any)
Want = TypeVar("Want", default=Any)


@dataclass(frozen=True)
class At(Generic[Here, Want]):
    """A node that is judged: what each check is given."""

    area: str
    node: NodeState
    wanted: NodeWanted
    nodes: Nodes

    @cached_property
    def here(self) -> Here:
        """What the node has of the rule's area."""
        return cast(Here, getattr(self.node, self.area))

    @cached_property
    def want(self) -> Want:
        """The area's section of the inventory; without one that section with nothing set.

        It is None where a section needs a value.
        """
        section = getattr(self.wanted, self.area, None)
        return cast(Want, unset(self.area) if section is None else section)

    @property
    def task(self) -> object:
        """What a command judges the nodes for."""
        return self.nodes.task

    @property
    def newcomer(self) -> Newcomer | None:
        """What is known of a server that is not a node yet."""
        return self.nodes.newcomer

    def of(self, peer: str) -> NodeState | None:
        """Return what another node has; None where it was not asked, or gave no answer."""
        return self.nodes.states.get(peer)


Check = Callable[[At], Iterator[Fault]]
# An error stops no job, every one, those of several nodes, or those whose launcher logs in: to the
# other nodes ("launches": from this one, if it launches). Of "asks": it is about what a job asks of
# the node, and a warning may stop that. Of "unknown": it hides what may stop one.
# tests/drift/stops.yml has the source of each.
Stops = Literal["", "every", "several", "logins", "launches", "asks", "unknown"]
# "several nodes": not where the inventory has a single one. "a newcomer": of a server that is to
# become a node, by `gpu-node onboard` alone. "a job": by `gpu-node check-job` alone. "with peers":
# its function reads the states of other nodes, and is run without one that breaks it. "comparing":
# it does, and reports values that differ between nodes: it is judged after all others.
When = Literal["several nodes", "a newcomer", "a job", "with peers", "comparing"]
# Which command alone judges such a rule.
_JUDGED_BY: dict[When, str] = {
    "a newcomer": "by gpu-node onboard, of a server that is to become a node",
    "a job": "by gpu-node check-job alone",
}
# Why a rule is not judged on a node.
TURNED_OFF = "`checks` of the inventory turns it off"
NO_JOBS = "gpu: none in the inventory: the node is not for jobs"


class Repaired(Part):
    """The folders of deploy/ whose step repairs what is fixable, and the key that lets it."""

    steps: Several[str] = ()
    # Empty: the first of `needs`.
    key: str = ""


class OnPeer(Part):
    """A cause on the node that the explained finding is about: a login to it fails."""

    peer: str


class Row(Part):
    """What a row says of a rule. `why`, `manual`: cause and fix of a fault that has none better."""

    # A sentence.
    checks: str
    # The first is that of the faults that name none.
    severity: Several[Severity]
    # Lists of keys: it is judged where the inventory has all keys of one. Without a list it always
    # is, and where the inventory does not name the area, nothing that it finds is repaired.
    needs: tuple[tuple[str, ...], ...] = ()
    when: Several[When] = ()
    # On which nodes a rule without `needs` is judged, where not on all: a clause.
    judged_on: str = ""
    repaired: Repaired = Repaired()
    # Which jobs an error of it stops, and where one stops none (`stops` of a Fault): a clause.
    stops: Stops = ""
    spares: str = ""
    # Its errors keep a server from becoming a node, but for what the deploy repairs; so do sections
    # that it reads, where they could not be read.
    bars: Literal["", "join"] = ""
    reads: Several[str] = ()
    # The rules whose findings explain those of this one; the first that has a finding counts.
    explained_by: tuple[str | OnPeer, ...] = ()
    # The area or the rule that one step repairs with it: they are one problem in the report.
    under: str = ""
    # Its finding explains what only root can read.
    explains_unread: Literal["", "root"] = ""
    # Both begin without a capital, and have no full stop.
    why: str
    manual: str
    # Who does what `manual` says; None: the administrator where there is a text `without_root`, and
    # of a new server, else the user.
    who: Who | None = None
    # Sentences: what the deploy changes on the node, and what a user without root can do where the
    # manual repair needs root.
    repair: str = ""
    without_root: str = ""
    # In place of `manual` on a node that is a container, where its host or its start decides.
    in_container: str = ""
    # In place of a function: how a value is to be.
    relation: Relation | None = None


class Rule(Row):
    """A row, its id and its function; calling the rule runs the function."""

    id: str
    check: Check

    def __call__(self, at: At) -> Iterator[Fault]:
        """Yield the faults of a node, whatever rule's area it is given for."""
        return self.check(replace(at, area=self.area))

    # There is one of each id.
    __hash__ = object.__hash__

    @override
    def __eq__(self, other: object) -> bool:
        return self is other

    @cached_property
    def area(self) -> str:
        """The area that it is about."""
        return self.id.split(".")[0]

    @property
    def steps(self) -> tuple[str, ...]:
        """The folders of deploy/ whose step repairs the findings that are fixable."""
        return self.repaired.steps

    @property
    def key(self) -> str:
        """The key of the inventory that lets the deploy repair what it finds."""
        return self.repaired.key or self.needs[0][0]

    @cached_property
    def compares(self) -> bool:
        """Whether it reports values that differ between nodes."""
        return "comparing" in self.when

    @cached_property
    def has_peers(self) -> bool:
        """Whether it reads the states of other nodes."""
        return self.compares or "with peers" in self.when

    @property
    def causes(self) -> tuple[str, ...]:
        """The ids of the rules whose findings explain those of this one."""
        return tuple(each.peer if isinstance(each, OnPeer) else each for each in self.explained_by)

    @property
    def judged_by(self) -> str:
        """Which command alone judges it; empty: each report does."""
        return next((_JUDGED_BY[when] for when in self.when if when in _JUDGED_BY), "")

    @property
    def judged(self) -> str:
        """When it is judged, and with which key the deploy repairs what it finds."""
        is_kept = self.repair and not self.needs
        return f"{self._judged}; repaired with `{self.key}`" if is_kept else self._judged

    @cached_property
    def _judged(self) -> str:
        groups = " or ".join(" and ".join(map(_written, need)) for need in self.needs)
        several = "several nodes" if "several nodes" in self.when else ""
        has = ", and ".join(each for each in (several, groups) if each)
        always = f"on {self.judged_on}" if self.judged_on else "always"
        return self.judged_by or (f"where the inventory has {has}" if has else always)

    def why_not_judged(self, wanted: NodeWanted, nodes: Nodes) -> str:
        """Return why it is not judged on a node; empty: it is.

        TURNED_OFF only where nothing else is a reason: what it finds there is counted.
        """
        is_newcomer = nodes.newcomer is not None
        lacks_keys = self.needs and not any(
            all(has_key(wanted, key) for key in group) for group in self.needs
        )
        if (
            ("a newcomer" in self.when and not is_newcomer)
            or ("a job" in self.when and nodes.task is None)
            or ("several nodes" in self.when and not is_newcomer and _is_alone(nodes))
            or lacks_keys
        ):
            return f"it is judged {self._judged}"
        if not is_of(wanted, self.area, self.id):
            return NO_JOBS
        return "" if is_on(self.id, wanted, nodes.day) else TURNED_OFF

    def findings(self, state: NodeState, wanted: NodeWanted, nodes: Nodes) -> Iterator[Finding]:
        """Yield the findings of this rule about one node, given the state of all its areas.

        So it does where `checks` turns it off: the caller counts them apart.
        """
        if self.why_not_judged(wanted, nodes) not in ("", TURNED_OFF):
            return
        for fault in self.check(At(self.area, state, wanted, nodes)):
            fixable = bool(self.steps) if fault.fixable is None else fault.fixable
            if fixable and not self.steps:
                raise ValueError(f"{self.id} has a fixable finding, and names no step")
            if fault.severity not in (None, *self.severity):
                raise ValueError(f"{self.id} does not declare the severity {fault.severity}")
            about = fault.subject if isinstance(fault.subject, Subject) else Thing(fault.subject)
            aside = any(hook.is_aside(about, state) for hook in hooks().values())
            held = self._held(about, state, wanted, nodes)
            yield self._finding(self._advised(fault, state), about, fixable, held, aside)

    def _advised(self, fault: Fault, state: NodeState) -> Fault:
        """Return a fault with the advice for a container, where that is another."""
        if not self.in_container or not any(each.is_contained(state) for each in hooks().values()):
            return fault
        return replace(fault, fix=self.in_container)

    def _finding(
        self, fault: Fault, about: Subject, fixable: bool, held: str, aside: bool
    ) -> Finding:
        by_deploy = fault.deploy
        if fixable and held and not by_deploy:
            by_deploy = f"set {held} in the inventory, and gpu-node deploy repairs it"
        ways = [Way("deploy", by_deploy)] if by_deploy else []
        ways.append(Way(fault.who or self._person, fault.fix or _filled(self.manual, fault)))
        why = "; ".join(each for each in (fault.also, _filled(self.why, fault)) if each)
        return Finding(
            rule=self.id,
            severity=fault.severity or self.severity[0],
            subject=str(about),
            about=about,
            found=fault.found,
            wanted=fault.wanted,
            cause=fault.cause or why,
            fix=OR.join(way.text for way in ways),
            ways=tuple(ways),
            alone=fault.alone or self.without_root,
            fixable=fixable and not held,
            step=next(iter(self.steps), self.area),
            stops=fault.stops and not aside,
            explained_by=fault.explained_by,
            explains=fault.explains,
        )

    @property
    def _person(self) -> Who:
        needs_root = self.without_root or "a newcomer" in self.when
        return self.who or ("administrator" if needs_root else "user")

    def _held(self, about: Subject, state: NodeState, wanted: NodeWanted, nodes: Nodes) -> str:
        """Return the key that the inventory lacks for a repair; empty: it has it."""
        if not self.steps:
            return ""
        # The inventory names what a finding is about: what it does not name is kept.
        is_kept = not self.needs and (
            not is_named(self.area, wanted)
            or any(hook.is_unnamed(about, state) for hook in hooks().values())
        )
        return nodes.assumed.get(self.key, self.key if is_kept else "")


def _filled(text: str, fault: Fault) -> str:
    return _CAPITALS.sub(lambda word: fault.names.get(word[0], word[0]), text)


def _is_alone(nodes: Nodes) -> bool:
    return all(peer.name == nodes.name for peer in nodes.peers) and len(nodes.states) < 2


def is_named(area: str, wanted: NodeWanted) -> bool:
    """Whether the inventory sets values for an area, or has no key for it at all."""
    return area not in NodeWanted.model_fields or getattr(wanted, area) is not None


def is_of(wanted: NodeWanted, area: str, name: str = "") -> bool:
    """Whether a rule, or a section, of an area counts on a node: without GPUs for jobs few do."""
    if not wanted.is_cpu_node:
        return True
    counting = hooks_of(area).of_cpu_nodes
    return counting is None or name in counting


@cache
def _switches() -> frozenset[str]:
    words = get_args(Switch)[-1].description
    keys = keys_of(NodeWanted)
    return frozenset(".".join(map(str, key.path)) for key in keys if key.allowed == words)


def _written(key: str) -> str:
    return f"`{key}: true`" if key in _switches() else f"`{key}`"


RULES: dict[str, Rule] = {}


def check(rule_id: str) -> Callable[[Check], Rule]:
    """Make a rule of a function and of the row of this id in the area's rules.yml."""

    def register(function: Check) -> Rule:
        made = row_of(Rule, rule_id, id=rule_id, check=function)
        if made is None or rule_id in RULES:
            wrong = "two functions check it" if made else "rules.yml has no such row"
            raise ValueError(f"{rule_id}: {wrong}")
        RULES[rule_id] = made
        return made

    return register

"""The state of a run: what the engine knows about it and each node, and a slot for each area."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date
from typing import Any, Generic, TypeVar, cast
from weakref import WeakKeyDictionary

from pyinfra.api import Host, State

from gpu_node.deploy.engine.ask_all import AskAll
from gpu_node.facts.ask.patience import Patience
from gpu_node.facts.ask.session import ProbeError
from gpu_node.facts.node import NodeState

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Slot(Generic[T]):
    """What one module keeps during a run, which the run does not know: `run.of(SLOT)`.

    `make` returns it for a run that has none yet.
    """

    make: Callable[[], T]


@dataclass
class NodeRun:
    """What is known about one node of a run."""

    # When its current operation began, by time.monotonic().
    operation_began: float | None = None
    # The areas that failed, in this order, and what stopped: each area and its subject, or "" for
    # the whole area.
    failed: list[str] = field(default_factory=list)
    stopped: set[tuple[str, str]] = field(default_factory=set)
    # Which lines of files an operation (its hash) will change, see `keep_lines`.
    lines: dict[str | None, list[str]] = field(default_factory=dict)
    # Whether this run keeps there what was before it: `gpu-node restore` can take it back.
    is_recorded: bool = False
    # Which replaced files were reached by a link, and where they are.
    links: list[str] = field(default_factory=list)
    # Why it is out of the run; empty if it is not.
    out: str = ""
    # Its state after the changes.
    proved_by: NodeState | None = None


@dataclass
class Run:
    """What is known about a run."""

    nodes: dict[str, NodeRun] = field(default_factory=dict)
    # Its day, in this machine's time zone: what is off until then is so until the run ends.
    day: date = field(default_factory=date.today)
    # The state of each node before the run.
    baseline: AskAll[NodeState | ProbeError] = field(default_factory=AskAll)
    # How long the nodes wait for each other's answers at the proof.
    proof_patience: Patience | None = None
    # Whether an operation that breaks fails only its node.
    is_contained: bool = False
    # Whether the problems before the run, and those after it, were printed.
    is_announced: bool = False
    is_summed_up: bool = False
    _kept: dict[Slot[Any], Any] = field(default_factory=dict)

    def node(self, host: Host) -> NodeRun:
        """Return what is known about a node."""
        return self.nodes.setdefault(host.name, NodeRun())

    def of(self, slot: Slot[T]) -> T:
        """Return what the owner of a slot keeps in this run."""
        if slot not in self._kept:
            self._kept[slot] = slot.make()
        return cast(T, self._kept[slot])


# A run ends with pyinfra's state for it.
_runs: WeakKeyDictionary[State, Run] = WeakKeyDictionary()


def run_of(state: State) -> Run:
    """Return the run of a pyinfra state."""
    return _runs.setdefault(state, Run())


def node_of(host: Host) -> NodeRun:
    """Return what is known about a node in its run."""
    return run_of(host.state).node(host)

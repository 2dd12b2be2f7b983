"""The state of a run: what the engine knows about it and each node, and a slot for each area."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date
from types import MappingProxyType
from typing import Any, ClassVar, Generic, TypeVar, cast
from weakref import WeakKeyDictionary

from gevent.event import AsyncResult
from gevent.pool import Pool
from pyinfra.api import Host, State
from pyinfra.api.arguments import CONNECTOR_ARGUMENT_KEYS

from gpu_node.facts.ask.execute import Rights
from gpu_node.facts.ask.gather import PARALLEL
from gpu_node.facts.ask.patience import Patience
from gpu_node.facts.ask.session import ProbeError
from gpu_node.facts.node import NodeState

T = TypeVar("T")


class AskAll(Generic[T]):
    """The answers of the nodes of one run, by name."""

    def __init__(self) -> None:
        self._result: AsyncResult[Mapping[str, T]] | None = None

    def answers(
        self,
        state: State,
        ask: Callable[[Host], T],
        then: Callable[[dict[Host, T]], Mapping[Host, T]] | None = None,
    ) -> Mapping[str, T]:
        """Return the result of `ask` for each node that is still in the run; called once each.

        `then` returns what all of them give together. An error is raised for every node.
        """
        if self._result is None:
            result = self._result = AsyncResult()
            try:
                hosts = list(state.active_hosts)
                results = Pool(PARALLEL).map(ask, hosts)
                pairs = zip(hosts, results, strict=True)
                given = then(dict(pairs)).items() if then else pairs
                result.set({host.name: each for host, each in given})
            except BaseException as error:
                result.set_exception(error)
                raise
        answers: Mapping[str, T] = self._result.get()
        return answers

    def known(self) -> Mapping[str, T]:
        """Return the answers so far, without asking."""
        if self._result is None or not self._result.ready():
            return {}
        answers: Mapping[str, T] = self._result.get()
        return answers


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
    # Why it is out of the run; empty if it is not.
    out: str = ""
    # Its state after the changes.
    proved_by: NodeState | None = None


@dataclass
class Run:
    """What is known about a run."""

    # The answers that gpu-node, whose child this process is, has had just before, by nodes' names.
    from_parent: ClassVar[Mapping[str, Any]] = MappingProxyType({})
    nodes: dict[str, NodeRun] = field(default_factory=dict)
    # Its day, in this machine's time zone: what is off until then is so until the run ends.
    day: date = field(default_factory=date.today)
    # The state of each node before the run.
    baseline: AskAll[NodeState | ProbeError] = field(default_factory=AskAll)
    # Their states after it.
    proof: AskAll[NodeState | None] = field(default_factory=AskAll)
    # How long the nodes wait for each other's answers at the proof.
    proof_patience: Patience | None = None
    # Whether an operation that breaks fails only its node.
    is_contained: bool = False
    # Whether the problems before the run, and those after it, were printed.
    is_announced: bool = False
    is_summed_up: bool = False
    _kept: dict[Slot[Any], Any] = field(default_factory=dict)

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
    return run_of(host.state).nodes.setdefault(host.name, NodeRun())


def of_operation(state: State, host: Host) -> Rights:
    """Return the rights of a host's current operation, for what its functions execute."""
    data = state.get_op_data_for_host(host, cast(str, host.executing_op_hash))
    arguments = dict(data.global_arguments)
    return {key: arguments[key] for key in CONNECTOR_ARGUMENT_KEYS if key in arguments}


def of_inventory(host: Host) -> Rights:
    """Return the rights of root if the inventory allows sudo; else those of the SSH user."""
    data = host.data.dict()
    return {"_sudo": True} if data.get("_sudo") else {}

"""The state of a run: what is known about it and each node; one object for all steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from gevent.lock import BoundedSemaphore
from pyinfra.api import Host, State
from pyinfra.api.exceptions import PyinfraError

from gpu_node.deploy.engine.ask_all import AskAll
from gpu_node.drift.engine.guard import Judgement
from gpu_node.facts.ask.patience import Patience
from gpu_node.facts.ask.session import ProbeError
from gpu_node.facts.node import NodeState

if TYPE_CHECKING:  # a plan is made from what is known about the run
    from rich.progress import Progress

    from gpu_node.deploy.engine.plan import Plan
    from gpu_node.deploy.workspace.senders import Sender, Senders


@dataclass
class NodeRun:
    """What is known about one node of a run."""

    # Its plan, or why there is none.
    plan: Plan | ProbeError | PyinfraError | None = None
    # When its current operation began, by time.monotonic().
    operation_began: float | None = None
    # The areas that failed, in this order, and what stopped: each area and its subject, or "" for
    # the whole area.
    failed: list[str] = field(default_factory=list)
    stopped: set[tuple[str, str]] = field(default_factory=set)
    # Which replaced files were reached by a link, and where they are.
    links: list[str] = field(default_factory=list)
    # Why it is out of the run; empty if it is not.
    out: str = ""
    # Accounts that do not let this machine in. Each failed login counts against its address
    # (PerSourcePenalties of sshd), so none is tried twice.
    closed_accounts: set[str] = field(default_factory=set)
    # The id of its boot before its reboot.
    boot_before: str = ""
    # Its state after the changes.
    proved_by: NodeState | None = None


@dataclass
class Run:
    """What is known about a run."""

    nodes: dict[str, NodeRun] = field(default_factory=dict)
    # The state of each node before the run, and the public key of each as it is now.
    baseline: AskAll[NodeState | ProbeError] = field(default_factory=AskAll)
    public_keys: AskAll[str | None] = field(default_factory=AskAll)
    # The judgements, and the states of each: states are compared by identity, and must live as long
    # as the judgement.
    judged: dict[frozenset[tuple[str, int]], tuple[Mapping[str, NodeState], Judgement]] = field(
        default_factory=dict
    )
    # How long the nodes wait for each other's answers at the proof.
    proof_patience: Patience | None = None
    # The node that did not come back from its reboot: no other one is rebooted.
    stopped_at: str = ""
    # What a source of copies sends at a time, and the display of their progress while there is one.
    sending: dict[str, BoundedSemaphore] = field(default_factory=dict)
    display: Progress | None = None
    # Who sends each tree of files, by its source and the digest of its list.
    senders: dict[tuple[Sender, str], Senders] = field(default_factory=dict)
    # Kept wheels that were read completely, each with its size and time.
    checked_wheels: set[tuple[str, int, int]] = field(default_factory=set)
    # Whether an operation that breaks fails only its node.
    is_contained: bool = False
    # Whether the problems before the run, and those after it, were printed.
    is_announced: bool = False
    is_summed_up: bool = False

    def node(self, host: Host) -> NodeRun:
        """Return what is known about a node."""
        return self.nodes.setdefault(host.name, NodeRun())


# A run ends with pyinfra's state for it.
_runs: WeakKeyDictionary[State, Run] = WeakKeyDictionary()


def run_of(state: State) -> Run:
    """Return the run of a pyinfra state."""
    return _runs.setdefault(state, Run())


def node_of(host: Host) -> NodeRun:
    """Return what is known about a node in its run."""
    return run_of(host.state).node(host)

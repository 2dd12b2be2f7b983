"""What a pre-flight shows of the machine: its system, its room, its packages, and who it is."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_node.drift.engine.nodes import Nodes
from gpu_node.drift.engine.preflight import Check, Checked
from gpu_node.drift.engine.rule import Rule
from gpu_node.drift.host import rules_newcomer as host
from gpu_node.drift.host.rules_disk import read_only
from gpu_node.drift.host.rules_name import name as host_name
from gpu_node.drift.host.rules_twin import SUBJECT, node_already
from gpu_node.facts.node import NodeState
from gpu_node.inventories.schema import NodeWanted


def _machine(state: NodeState, wanted: NodeWanted, nodes: Nodes) -> Iterator[Check]:
    system, disks = state.host.system, state.host.disks
    rules: tuple[Rule, ...] = (host.system,)
    shown = {
        "system": host.release(system) if system else None,
        "architecture": system.machine if system else None,
    }
    for subject, text in shown.items():
        yield Check(subject, text, rules, "host.system", about=subject, needed=True)
    if disks is None:
        yield Check("disk space", None, section="host.disks", needed=True)
    for disk in disks or ():
        rules = (host.space_for_deploy, read_only)
        yield Check(f"space on {disk.point}", host.room(disk), rules, about=disk.point)


def _packages(state: NodeState, wanted: NodeWanted, nodes: Nodes) -> Iterator[Check]:
    is_read = state.host.package_lock is not None
    section = "host.package-lock" if state.nccl.manager else "nccl.manager"
    manager = state.nccl.manager if is_read else None
    yield Check("package manager", manager, (host.package_manager,), section)
    sources = state.host.repositories
    answering = None if sources is None else host.answering(sources)
    yield Check("repositories", answering, (host.repositories,), "host.repositories")


def _identity(state: NodeState, wanted: NodeWanted, nodes: Nodes) -> Iterator[Check]:
    own, machine = state.host.name, state.host.machine_id
    shown = None if machine is None else machine or "none"
    yield Check("machine-id", shown, (host.machine_id,), "host.machine-id", needed=True)
    yield Check(SUBJECT, _no_twin(state, nodes), (node_already,), "driver.uuids")
    yield Check("hostname", own.name if own else None, (host_name,), "host.name")


def _no_twin(state: NodeState, nodes: Nodes) -> str | None:
    if not nodes.states:
        return "" if nodes.others else "no"
    if state.driver.uuids is None:
        return None
    every = "no" if len(nodes.states) == len(nodes.others) else f"none of {', '.join(nodes.states)}"
    # Without a driver the UUID of a GPU is unknown.
    return every if state.driver.uuids else f"{every}, by machine-id and address"


CHECKED = Checked(
    {"machine": _machine, "packages": _packages, "identity": _identity},
    of_server=(
        *("host.disks", "host.name", "host.machine-id", "host.system"),
        *("host.package-lock", "host.repositories", "nccl.manager"),
    ),
    of_nodes=("driver.uuids", "host.machine-id"),
)

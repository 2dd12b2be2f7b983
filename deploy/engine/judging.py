"""Judges the nodes of a run: all together, by the states of all, once after each probe."""

from __future__ import annotations

from collections.abc import Mapping

from pyinfra.api import Host, State
from pyinfra.api.exceptions import PyinfraError

from gpu_node.deploy.engine.baseline import among
from gpu_node.deploy.engine.run import run_of
from gpu_node.drift.engine.check import judge
from gpu_node.drift.engine.finding import Finding
from gpu_node.drift.engine.guard import Judged, Judgement
from gpu_node.facts.node import NodeState
from gpu_node.inventories.schema import InventoryError, NodeWanted


def wanted_of(host: Host) -> NodeWanted:
    """Return the wanted state of a host (inventory, --data); PyinfraError names a bad value."""
    try:
        return NodeWanted.from_data(host.data.dict())
    except InventoryError as error:
        raise PyinfraError(f"{host.name}: {error}") from error


def judged(state: State, found: Mapping[str, NodeState]) -> Judgement:
    """Return the judgement of those nodes of a run whose states are in `found`.

    Raises PyinfraError if the inventory wants something impossible of a node.
    """
    made = run_of(state).judged
    key = frozenset((name, id(each)) for name, each in found.items())
    if key not in made:
        known = dict(found)
        hosts = [host for host in state.inventory if host.name in known]
        nodes = {
            host.name: Judged(known[host.name], wanted_of(host), among(host, known))
            for host in hosts
        }
        made[key] = (known, judge(nodes))
    return made[key][1]


def findings_of(host: Host, found: Mapping[str, NodeState]) -> list[Finding]:
    """Return the findings about a host, judged together with the other nodes in `found`."""
    return judged(host.state, found).findings[host.name]

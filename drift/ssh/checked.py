"""What a pre-flight shows of the server's name."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_node.drift.engine.nodes import Nodes
from gpu_node.drift.engine.preflight import Check, Checked
from gpu_node.drift.ssh.rules_newcomer import addresses_of, name_taken
from gpu_node.facts.node import NodeState
from gpu_node.inventories.schema import NodeWanted


def _name(state: NodeState, wanted: NodeWanted, nodes: Nodes) -> Iterator[Check]:
    yield Check(f"name {nodes.name}", _meaning(state, nodes), (name_taken,), "ssh.names")


def _meaning(state: NodeState, nodes: Nodes) -> str | None:
    own = addresses_of(nodes.name, state)
    if own is None:
        return None
    here = nodes.newcomer.here if nodes.newcomer else ()
    return next(iter((*own, *(here or ()))), "resolves to no other host")


CHECKED = Checked({"cluster": _name}, of_server=("ssh.",), of_nodes=("ssh.",))

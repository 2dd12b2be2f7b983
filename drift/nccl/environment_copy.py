"""Python environments that are missing, the node they are copied from, and what bars that."""

import re

from gpu_node.drift.engine.nodes import Nodes
from gpu_node.facts.nccl.state import Environment
from gpu_node.facts.node import NodeState
from gpu_node.inventories.fields.kinds import FAMILIES
from gpu_node.inventories.wanted import NcclWanted


def missing(state: NodeState, wanted: NcclWanted | None) -> tuple[str, ...]:
    """Return the folders of environments that the inventory names and that are not there."""
    return state.nccl.absent if wanted is not None else ()


def origin(wanted: NcclWanted, prefix: str, nodes: Nodes) -> Environment | None:
    """Return an environment as the node has it that copies come from; None where unknown."""
    source = nodes.states.get(wanted.copy_from or "")
    return source.nccl.environments.get(prefix) if source else None


def machine(environment: Environment) -> str:
    """Return what an environment's programs run on, as uname -m says it; empty if not known."""
    match = re.fullmatch(r"manylinux_\d+_\d+_(\w{1,40})", environment.platform or "", re.ASCII)
    return match[1] if match else ""


def can_install_rsync(state: NodeState) -> bool:
    """Whether the node has a package manager that is known here."""
    return state.nccl.manager in FAMILIES


def will_have_rsync(state: NodeState) -> bool:
    """Whether the node has an rsync, or gets one in the same run."""
    return bool(state.workspace.rsync) or (state.workspace.rsync == "" and can_install_rsync(state))


def is_asked_to_copy(wanted: NcclWanted | None, nodes: Nodes) -> bool:
    """Whether the node is the one that others lack an environment of."""
    if wanted is None or wanted.copy_from != nodes.name:
        return False
    others = (state for name, state in nodes.states.items() if name != nodes.name)
    return any(state.nccl.absent for state in others)


def hindrance(node: NodeState, wanted: NcclWanted, prefix: str, nodes: Nodes) -> str | None:
    """Return why an environment is not copied to a node, as what to do; None if it is."""
    source = wanted.copy_from
    if source is None:
        return (
            "create it as on the other nodes, or correct nccl.environments; or name a node to copy "
            "it from: nccl: {copy_from: NODE}"
        )
    if source == nodes.name:
        return (
            "this node is the source of the copy: create it here, or name another node, or correct "
            "nccl.environments"
        )
    state = nodes.states.get(source)
    if state is None:
        return f"run this for both this node and {source}, the source of the copy"
    if origin(wanted, prefix, nodes) is None:
        return (
            f"{source}, the source of the copy, has no readable {prefix}: create it there, or "
            "correct nccl.environments"
        )
    for name, each in ((nodes.name, node), (source, state)):
        if not will_have_rsync(each):
            return f"install rsync on {name}: it copies the environment"
    return None

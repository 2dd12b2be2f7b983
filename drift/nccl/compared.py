"""Which Python environments of nodes are compared with each other.

Those that an inventory names are compared in their order. Environments that the probe has found
without it are compared by their folder: a launcher starts the same path on each node. If no node
has more than one, they are compared wherever they are.
"""

from collections.abc import Callable, Sequence
from functools import partial

from gpu_node.drift.engine.fact import SHOWN, Fact
from gpu_node.facts.nccl.state import Environment
from gpu_node.facts.node import NodeState


def is_as_a_whole(node: NodeState) -> bool:
    """Whether all environments of a node are compared at once: they are named, or there is one."""
    return len(node.nccl.discovered) < 2


def is_complete(node: NodeState) -> bool:
    """Whether they are, and none is missing, of which there is a finding."""
    return is_as_a_whole(node) and not node.nccl.absent


def folders(nodes: Sequence[NodeState]) -> list[str]:
    """Return the folders of environments that are compared one by one."""
    several = [node for node in nodes if not is_as_a_whole(node)]
    prefixes = dict.fromkeys(prefix for node in several for prefix in node.nccl.discovered)
    return [
        prefix for prefix in prefixes if sum(prefix in node.nccl.environments for node in nodes) > 1
    ]


def has(prefix: str, node: NodeState) -> bool:
    """Whether a node has an environment, and it could be read: else there is a finding about it."""
    return node.nccl.environments.get(prefix) is not None


def in_folder(name: str, prefix: str, of: Callable[[Environment], str | None]) -> Fact:
    """Return a fact of all environments as that of one, which is compared by its folder."""

    def value(node: NodeState) -> str | None:
        environment = node.nccl.environments[prefix]
        return None if environment is None else of(environment)

    row = SHOWN[name].row
    own = {
        "marked_by": tuple(f"{rule}:{prefix}" for rule in row.marked_by),
        "explained_by": (),
        "follows": f"{row.follows}:{prefix}" if row.follows else "",
    }
    applies = partial(has, prefix)
    return Fact(f"{name}:{prefix}", row.model_copy(update=own), value, applies)

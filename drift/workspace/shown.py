"""What the report shows of the copied directories."""

from gpu_node.drift.engine.fact import shows
from gpu_node.drift.units import size
from gpu_node.facts.node import NodeState


@shows("workspace.files", applies=lambda node: bool(node.workspace.trees))
def files(node: NodeState) -> str | None:
    copies = node.workspace.trees.values()
    if None in copies:
        return None
    trees = [each for each in copies if each and each.digest]
    values = [f"{tree.files} files, {size(tree.bytes)}" for tree in trees]
    # Whatever `checksum` says of the copy, no content is compared here.
    return f"{', '.join(values)}, by size and time" if values else "none"

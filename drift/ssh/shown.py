"""What the report shows of the logins between nodes."""

from gpu_node.drift.engine.fact import shows
from gpu_node.facts.node import NodeState


def _is_tried(node: NodeState) -> bool:
    return not node.ssh.left_out and (node.ssh.logins != () or bool(node.ssh.untried))


@shows("ssh.logins", applies=_is_tried)
def logins(node: NodeState) -> str | None:
    """How many logins to the nodes, by name and by address, work of those that were tried."""
    if node.ssh.logins is None:
        return None
    worked = sum(1 for login in node.ssh.logins if login.code == 0)
    untried = f", {node.ssh.untried} nodes not tried" if node.ssh.untried else ""
    is_unread = any(each.section == "ssh.logins" for each in node.unreadable)
    unknown = ", others unknown" if is_unread else ""
    return f"{worked} of {len(node.ssh.logins)}{untried}{unknown}"

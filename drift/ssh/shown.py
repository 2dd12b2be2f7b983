"""What the report shows of the logins between nodes."""

from __future__ import annotations

from gpu_node.drift.engine.fact import Fact
from gpu_node.drift.ssh.rules_mesh import no_login
from gpu_node.facts.node import NodeState
from gpu_node.inventories.schema import NodeWanted


def logins(node: NodeState) -> str | None:
    """How many logins to the nodes, by name and by address, work of those that were tried."""
    if node.ssh.logins is None:
        return None
    worked = sum(1 for login in node.ssh.logins if login.code == 0)
    untried = f", {node.ssh.untried} nodes not tried" if node.ssh.untried else ""
    is_unread = any(each.section == "ssh.logins" for each in node.unreadable)
    unknown = ", others unknown" if is_unread else ""
    return f"{worked} of {len(node.ssh.logins)}{untried}{unknown}"


def _is_managed(wanted: NodeWanted) -> bool:
    return wanted.ssh is not None and wanted.ssh.mesh is True


def _is_tried(node: NodeState) -> bool:
    return not node.ssh.left_out and (node.ssh.logins != () or bool(node.ssh.untried))


FACTS = (
    Fact(
        "ssh.logins",
        "per-host",
        (no_login,),
        logins,
        is_managed=_is_managed,
        applies=_is_tried,
    ),
)

"""What the report shows of the network: the addresses, and the interface that a process gets."""

from gpu_node.drift.engine.fact import shows
from gpu_node.drift.network.ifname import conf_settings
from gpu_node.drift.network.interfaces import is_never
from gpu_node.facts.network.state import Address
from gpu_node.facts.node import NodeState
from gpu_node.inventories.fields.kinds import IFNAME


@shows("network.addresses")
def addresses(found: tuple[Address, ...]) -> str:
    """The interfaces that may lead to other machines, with their addresses."""
    entries = [
        f"{address.interface} {address.address}"
        for address in found
        if address.scope == "global" and not is_never(address.interface)
    ]
    return ", ".join(entries) or "none"


@shows("network.ifname")
def effective(node: NodeState) -> str | None:
    """What a process gets that a launcher starts, and from where; None if unread."""
    if node.env.launcher is None or node.env.conf is None:
        return None
    if value := node.env.launcher.get(IFNAME):
        return value
    value = next((setting.value for setting in conf_settings(node) if setting.name == IFNAME), None)
    return f"{value} in nccl.conf" if value else "not set"

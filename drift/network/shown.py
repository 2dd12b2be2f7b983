"""What the report shows of the network: the addresses, and the interface that a process gets."""

from __future__ import annotations

from gpu_node.drift.engine.fact import Fact
from gpu_node.drift.network import rules
from gpu_node.drift.network.ifname import conf_settings
from gpu_node.drift.network.interfaces import is_never
from gpu_node.facts.node import NodeState
from gpu_node.inventories.fields.kinds import IFNAME


def addresses(node: NodeState) -> str | None:
    """The interfaces that may lead to other machines, with their addresses; None if unread."""
    if node.network.addresses is None:
        return None
    entries = [
        f"{address.interface} {address.address}"
        for address in node.network.addresses
        if address.scope == "global" and not is_never(address.interface)
    ]
    return ", ".join(entries) or "none"


def effective(node: NodeState) -> str | None:
    """What a process gets that a launcher starts, and from where; None if unread."""
    if node.env.launcher is None or node.env.conf is None:
        return None
    if value := node.env.launcher.get(IFNAME):
        return value
    value = next((setting.value for setting in conf_settings(node) if setting.name == IFNAME), None)
    return f"{value} in nccl.conf" if value else "not set"


FACTS = (
    Fact("network.addresses", "per-host", (rules.address_missing,), addresses),
    Fact(
        "network.ifname",
        "per-host",
        (rules.ifname_missing, rules.ifname_wrong, rules.launcher_override),
        effective,
    ),
)

"""Network: /etc/nccl.conf names the interface by which the other nodes reach this one."""

from __future__ import annotations

from pyinfra.api import deploy

from deploy.operations import network
from deploy.plan import Plan
from drift.ifname import CONF, chosen


@deploy("Network")
def converge(plan: Plan) -> None:
    """Repair what the network rules found in NCCL's file."""
    name = chosen(plan.found, plan.wanted).name
    subjects = plan.subjects("network.ifname-missing", "network.ifname-wrong")
    if name is not None and CONF in subjects:
        network.nccl_conf(name=f"Write {CONF}", path=CONF, interface=name)

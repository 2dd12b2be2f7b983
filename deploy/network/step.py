"""Network: /etc/nccl.conf names the interface through which the other nodes reach this one."""

from pyinfra.api import deploy

from gpu_node.deploy.engine.plan import Plan
from gpu_node.deploy.network import operations as network
from gpu_node.drift.engine.subject import Path
from gpu_node.drift.network import rules
from gpu_node.drift.network.ifname import CONF, chosen


@deploy("Network")
def converge(plan: Plan) -> None:
    """Repair what the network rules found in NCCL's file."""
    name = chosen(plan.state, plan.wanted).name
    if name is not None and plan.repairs(
        rules.ifname_missing, rules.ifname_wrong, about=Path(CONF)
    ):
        network.nccl_conf(name=f"Write {CONF}", path=CONF, interface=name)

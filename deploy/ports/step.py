"""Ports: firewalld accepts the addresses of the other nodes, and not those of removed ones."""

from pyinfra.api import deploy

from gpu_node.deploy.engine.plan import Plan
from gpu_node.deploy.ports import operations as ports
from gpu_node.drift.ports import rules


@deploy("Ports")
def converge(plan: Plan) -> None:
    """Repair what the rules about ports found in firewalld."""
    if plan.repairs(rules.former_node):
        ports.forget(
            name="Remove rules of firewalld", rules=rules.former_rules(plan.state.ports, plan.nodes)
        )
    if plan.repairs(rules.blocked):
        interface, addresses = plan.state.ports.interface, rules.others(plan.nodes)
        ports.trust(name="Try rules of firewalld", interface=interface, addresses=addresses)
        ports.trust(
            name="Keep rules of firewalld", interface=interface, addresses=addresses, keep=True
        )

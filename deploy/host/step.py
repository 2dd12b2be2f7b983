"""The host: settings and modules of the kernel, and services, now and at each boot."""

from pyinfra import host
from pyinfra.api import deploy

from gpu_node.deploy.engine.failures import apart
from gpu_node.deploy.engine.plan import Plan
from gpu_node.deploy.host import operations
from gpu_node.drift.engine.subject import Thing
from gpu_node.drift.host import rules_settings as rules
from gpu_node.facts.limits.confirmed import MODULES, SERVICES, SYSCTL


@deploy("Host")
def converge(plan: Plan) -> None:
    """Repair what the rules about settings found: modules first, which bring settings with them."""
    wanted = plan.wanted.sysctl or {}
    for rule, path, value in (
        (rules.module, MODULES, ""),
        (rules.sysctl, SYSCTL, ""),
        (rules.service, SERVICES, "enabled active"),
    ):
        names = [each.thing for each in plan.subjects(Thing, rule)]
        if names:
            entries = {name: wanted.get(name, value) for name in names}
            with apart(host, path):
                operations.settings(
                    name=f"Set {', '.join(names)}",
                    path=path,
                    entries=entries,
                    account=plan.trainer,
                    now=True,
                )

"""The host: settings of the kernel, modules and services, now and at each boot."""

from collections.abc import Mapping

from pyinfra import host
from pyinfra.api import deploy

from gpu_node.deploy.engine.failures import apart
from gpu_node.deploy.engine.plan import Plan
from gpu_node.deploy.host import operations
from gpu_node.drift.engine.rule import Rule
from gpu_node.drift.engine.subject import Thing
from gpu_node.drift.host import rules_settings as rules
from gpu_node.facts.limits.confirmed import MODULES, SERVICES, SYSCTL


@deploy("Host")
def converge(plan: Plan) -> None:
    """Repair what the rules about settings found: modules first, which bring settings with them."""
    wanted = plan.wanted
    _set(plan, rules.module, MODULES, dict.fromkeys(wanted.modprobe or (), ""))
    _set(plan, rules.sysctl, SYSCTL, wanted.sysctl or {})
    _set(plan, rules.service, SERVICES, dict.fromkeys(wanted.services or (), "enabled active"))


def _set(plan: Plan, rule: Rule, path: str, entries: Mapping[str, str]) -> None:
    lacking = [each.thing for each in plan.subjects(Thing, rule)]
    if lacking:
        with apart(host, path):
            operations.settings(
                name=f"Set {', '.join(lacking)}",
                path=path,
                entries={name: entries[name] for name in lacking},
                account=plan.trainer,
                now=True,
            )

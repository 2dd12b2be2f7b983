"""Toolchain: cmake in a separate prefix, pinned Python packages, ninja, and pdsh."""

from collections.abc import Callable
from functools import partial

from pyinfra import host, logger
from pyinfra.api import deploy

from gpu_node.deploy.engine.failures import apart
from gpu_node.deploy.engine.plan import Plan
from gpu_node.deploy.engine.shared import is_writer, may_be_shared, versions_differ
from gpu_node.deploy.nccl.pip import supply
from gpu_node.deploy.toolchain import operations as toolchain
from gpu_node.drift.engine.subject import Package
from gpu_node.drift.toolchain import rules, rules_build, rules_packages
from gpu_node.drift.toolchain.rules import LINK_DIR, moved_away
from gpu_node.facts.node import placed
from gpu_node.inventories.escape import visible
from gpu_node.inventories.wanted import CmakeWanted

_NINJA = "ninja"


@deploy("Toolchain")
def converge(plan: Plan) -> None:
    """Repair what the toolchain rules found."""
    wanted = plan.wanted.toolchain
    if wanted is not None and wanted.cmake is not None:
        with apart(host, "cmake"):
            _cmake(plan, wanted.cmake)
    _packages(plan)
    _ninja(plan)
    manager = plan.state.nccl.manager
    if plan.repairs(rules_build.pdsh) and manager is not None:
        with apart(host, "pdsh"):
            toolchain.program(
                name="Install pdsh",
                manager=manager,
                program="pdsh",
                # Red Hat's pdsh reaches nodes by ssh only with a separate package.
                packages="pdsh" if manager == "apt-get" else "pdsh pdsh-rcmd-ssh",
                allow_disruption=plan.allow_disruption,
            )


def _cmake(plan: Plan, wanted: CmakeWanted) -> None:
    if plan.repairs(rules.cmake_old, rules.cmake_shadowed):
        cmakes = plan.state.toolchain.cmake
        if cmakes is not None and (moved := moved_away(cmakes, wanted.version)):
            # In a dry run an operation has only one line.
            logger.info(f"{host.print_prefix}{visible(moved)}")
        toolchain.cmake(
            name=f"Link cmake {wanted.version}",
            version=wanted.version,
            url=wanted.url,
            sha256=wanted.sha256,
            fetch=wanted.fetch,
            links=LINK_DIR,
        )


def _packages(plan: Plan) -> None:
    wanted, lacking = _pins(plan), plan.subjects(Package, rules_packages.package_differs)
    for prefix in dict.fromkeys(each.environment for each in lacking):
        names = [each.package for each in lacking if each.environment == prefix]
        if not versions_differ(
            plan, prefix, partial(placed, prefix), _pins, rules_packages.package_differs
        ):
            pins = [f"{name}=={wanted[name]}" for name in names]
            _install(plan, prefix, pins, partial(_lacks_pins, prefix))


def _ninja(plan: Plan) -> None:
    """Install ninja where DeepSpeed lacks it; `_packages` installs one that is pinned."""
    if _NINJA not in _pins(plan):
        for prefix in dict.fromkeys(_without_ninja(plan)):
            _install(plan, prefix, [_NINJA], partial(_lacks_ninja, prefix))


def _install(plan: Plan, prefix: str, pins: list[str], lacks: Callable[[Plan], bool]) -> None:
    lies = partial(placed, prefix)
    if is_writer(plan, prefix, lies, lacks):
        with apart(host, prefix):
            toolchain.packages(
                name=f"Install {', '.join(pins)} in {prefix}",
                environment=prefix,
                pins=pins,
                allow_disruption=plan.allow_disruption,
                shared=may_be_shared(lies(plan.state)),
                **supply(plan, pins),
            )


def _without_ninja(plan: Plan) -> list[str]:
    return [subject.environment for subject in plan.subjects(Package, rules_build.ninja)]


def _lacks_ninja(prefix: str, plan: Plan) -> bool:
    return prefix in _without_ninja(plan)


def _pins(plan: Plan) -> dict[str, str]:
    return dict((plan.wanted.toolchain.packages if plan.wanted.toolchain else None) or {})


def _lacks_pins(prefix: str, plan: Plan) -> bool:
    lacking = plan.subjects(Package, rules_packages.package_differs)
    return prefix in {each.environment for each in lacking}

"""Toolchain: cmake in a prefix of its own, first in PATH by links, and pinned Python packages."""

from __future__ import annotations

from functools import partial

from pyinfra import host, logger
from pyinfra.api import deploy

from deploy.operations import toolchain
from deploy.plan import Plan
from deploy.shared import is_writer, may_be_shared, wishes_differ
from drift.environments import unmet
from drift.libnccl import environments
from drift.report.visible import visible
from drift.rules.toolchain import LINK_DIR, moved_away
from facts.node import placed
from inventories.schema import CmakeWanted, ToolchainWanted


@deploy("Toolchain")
def converge(plan: Plan) -> None:
    """Repair what the toolchain rules found."""
    wanted = plan.wanted.toolchain
    if wanted is not None and wanted.cmake is not None:
        _cmake(plan, wanted.cmake)
    if wanted is not None and plan.repairs("toolchain.package-differs"):
        _packages(plan, wanted)


def _cmake(plan: Plan, wanted: CmakeWanted) -> None:
    if plan.repairs("toolchain.cmake-old", "toolchain.cmake-shadowed"):
        cmakes = plan.found.toolchain.cmake
        if cmakes is not None and (moved := moved_away(cmakes, wanted.version)):
            # In a dry run an operation has but a line.
            logger.info(f"{host.print_prefix}{visible(moved)}")
        toolchain.cmake(
            name=f"Link cmake {wanted.version}",
            version=wanted.version,
            url=wanted.url,
            sha256=wanted.sha256,
            fetch=wanted.fetch,
            links=LINK_DIR,
        )


def _packages(plan: Plan, wanted: ToolchainWanted) -> None:
    for prefix, environment in environments(plan.found.nccl):
        pins = [f"{name}=={pin}" for name, pin in unmet(environment, wanted.packages or {}).items()]
        lies = partial(placed, prefix)
        if not pins or wishes_differ(plan, prefix, lies, _pins):
            continue
        if is_writer(plan, prefix, lies, partial(_lacks_pins, prefix)):
            toolchain.packages(
                name=f"Install {', '.join(pins)} in {prefix}",
                environment=prefix,
                pins=pins,
                allow_disruption=plan.allow_disruption,
                shared=may_be_shared(lies(plan.found)),
            )


def _pins(plan: Plan) -> dict[str, str]:
    return dict((plan.wanted.toolchain.packages if plan.wanted.toolchain else None) or {})


def _lacks_pins(prefix: str, plan: Plan) -> bool:
    environment, wanted = plan.found.nccl.environments.get(prefix), plan.wanted.toolchain
    if environment is None or wanted is None or not plan.repairs("toolchain.package-differs"):
        return False
    return bool(unmet(environment, _pins(plan)))

"""What the report shows of the driver, and compares between nodes."""

from __future__ import annotations

import re

from gpu_node.drift.driver import (
    rules,
    rules_cuda,
    rules_driver_packages,
    rules_gpus,
    rules_module,
    rules_updates,
)
from gpu_node.drift.driver.boot import next_boot as booted_next
from gpu_node.drift.driver.boot import short
from gpu_node.drift.driver.rules_between import NO_DRIVER, differs
from gpu_node.drift.driver.target import is_absent
from gpu_node.drift.engine.fact import Fact
from gpu_node.facts.node import NodeState

# What nvidia-smi puts before every model.
_MAKE = re.compile(r"^(NVIDIA |Tesla )+")


def version(node: NodeState) -> str | None:
    if node.driver.loaded is None or node.driver.library is None:
        return None
    if node.driver.loaded.nvidia or not node.driver.library:
        return node.driver.loaded.nvidia or NO_DRIVER[0]
    return NO_DRIVER[1]


def next_boot(node: NodeState) -> str | None:
    """The module of the kernel that boots next, with the kernel if another one is running."""
    kernels = node.driver.kernels
    if kernels is None or node.driver.boot is None:
        return None
    chosen = booted_next(node.driver).kernel
    if chosen is None:
        return "unknown"
    for kernel in kernels.installed:
        if kernel.name == chosen:
            has = kernel.module.version if kernel.module else "no module"
            return has if chosen == kernels.running else f"{has} in {short(chosen)}"
    return f"{short(chosen)}, which is not installed"


def gpus(node: NodeState) -> str | None:
    if node.driver.smi is None:
        return None
    names = [_MAKE.sub("", gpu.name) for gpu in node.driver.smi.gpus]
    return ", ".join(f"{names.count(name)} x {name}" for name in dict.fromkeys(names)) or "none"


def cuda(node: NodeState) -> str | None:
    """How cuInit ended, or why it was not called."""
    cuda_init = node.driver.cuda_init
    if cuda_init is None:
        return None
    if cuda_init.works:
        return "works"
    if cuda_init.untried:
        return f"not tried: {cuda_init.untried}"
    if cuda_init.helped:
        return "not tried: it would load nvidia_uvm"
    if cuda_init.lacks:
        return "no nvidia_uvm"
    return cuda_init.problem if cuda_init.code is None else f"error {cuda_init.code}"


def upgrade(node: NodeState) -> str | None:
    """The version of the driver's package that the next upgrade installs."""
    offer = node.driver.upgrade
    if offer is None:
        return None
    if not offer.package:
        return "not a package"
    if offer.unknown:
        return f"unknown: {offer.unknown}"
    waits = offer.candidate if rules_updates.replaces(offer) else "none"
    return f"{waits} (held)" if offer.held and waits != "none" else waits


def _may_have_driver(node: NodeState) -> bool:
    return not is_absent(node.driver)


FACTS = (
    Fact(
        "driver.version",
        "must-equal",
        (
            rules_driver_packages.not_installed,
            rules_driver_packages.package_missing,
            rules.version_differs,
            rules_module.not_loaded,
            rules_module.library_mismatch,
        ),
        version,
        differs,
        explained_by=(rules.module_not_built, rules_gpus.unsupported_gpu),
    ),
    Fact(
        "driver.next_boot",
        "per-host",
        (rules.boots_without, rules.module_not_built),
        next_boot,
        applies=_may_have_driver,
    ),
    Fact(
        "driver.gpus",
        "per-host",
        (
            rules_gpus.gpu_differs,
            rules_gpus.smi_fails,
            rules_module.not_loaded,
            rules_module.library_mismatch,
        ),
        gpus,
    ),
    Fact("driver.cuda", "per-host", (rules_cuda.cuda_init,), cuda, applies=_may_have_driver),
    Fact(
        "driver.upgrade",
        "per-host",
        (rules_updates.upgrade_waiting,),
        upgrade,
        applies=_may_have_driver,
    ),
)

"""What the report shows of the driver, and compares between nodes."""

import re

from gpu_node.drift.driver.boot import next_boot as booted_next
from gpu_node.drift.driver.boot import short
from gpu_node.drift.driver.rules_updates import replaces
from gpu_node.drift.driver.target import is_absent
from gpu_node.drift.engine.fact import shows
from gpu_node.facts.driver.cuda_init import CudaInit
from gpu_node.facts.driver.gpus import Smi
from gpu_node.facts.driver.upgrades import Upgrade
from gpu_node.facts.node import NodeState

# What nvidia-smi puts before every model.
_MAKE = re.compile(r"^(NVIDIA |Tesla )+")
# What is shown of a node that has no driver, and of one where it is not loaded.
NO_DRIVER = ("none", "not loaded")


def _may_have_driver(node: NodeState) -> bool:
    return not is_absent(node.driver)


@shows("driver.version")
def version(node: NodeState) -> str | None:
    if node.driver.loaded is None or node.driver.library is None:
        return None
    if node.driver.loaded.nvidia or not node.driver.library:
        return node.driver.loaded.nvidia or NO_DRIVER[0]
    return NO_DRIVER[1]


@shows("driver.next_boot", applies=_may_have_driver)
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


@shows("driver.gpus")
def gpus(smi: Smi) -> str:
    names = [_MAKE.sub("", gpu.name) for gpu in smi.gpus]
    return ", ".join(f"{names.count(name)} x {name}" for name in dict.fromkeys(names)) or "none"


@shows("driver.cuda", applies=_may_have_driver)
def cuda(cuda_init: CudaInit) -> str:
    """How cuInit ended, or why it was not called."""
    if cuda_init.works:
        return "works"
    if cuda_init.untried:
        return f"not tried: {cuda_init.untried}"
    if cuda_init.helped:
        return "not tried: it would load nvidia_uvm"
    if cuda_init.lacks:
        return "no nvidia_uvm"
    return cuda_init.problem if cuda_init.code is None else f"error {cuda_init.code}"


@shows("driver.upgrade", applies=_may_have_driver)
def upgrade(offer: Upgrade) -> str:
    """The version of the driver's package that the next upgrade installs."""
    if not offer.package:
        return "not a package"
    if offer.unknown:
        return f"unknown: {offer.unknown}"
    waits = offer.candidate if replaces(offer) else "none"
    return f"{waits} (held)" if offer.held and waits != "none" else waits

"""What a pre-flight shows of the GPUs and of their driver."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_node.drift.driver import rules_gpus, rules_module
from gpu_node.drift.driver.rules import version_differs
from gpu_node.drift.driver.rules_driver_packages import not_installed
from gpu_node.drift.driver.rules_gpus import cards, counted
from gpu_node.drift.driver.target import installed
from gpu_node.drift.engine.nodes import Nodes
from gpu_node.drift.engine.preflight import Check, Checked
from gpu_node.drift.engine.rule import Rule
from gpu_node.facts.driver.gpu_holders import jobs
from gpu_node.facts.node import NodeState
from gpu_node.inventories.schema import NodeWanted

# Without these it is unknown whether a driver is installed.
_DRIVER = ("library", "dkms", "loaded", "kernels")


def _gpus(node: NodeState, wanted: NodeWanted, nodes: Nodes) -> Iterator[Check]:
    state = node.driver
    rules: tuple[Rule, ...] = (rules_gpus.no_gpu, rules_gpus.mixed_gpus, rules_gpus.unknown_gpu)
    has = counted(cards(state)) or ("none" if wanted.is_cpu_node else None)
    yield Check("GPUs", has, rules, "driver.pci", needed=True)
    answering = None if state.smi is None else ""
    yield Check("nvidia-smi", answering, (rules_gpus.smi_fails,), "driver.smi", mended=True)


def _driver(node: NodeState, wanted: NodeWanted, nodes: Nodes) -> Iterator[Check]:
    state, secure_boot = node.driver, node.driver.secure_boot
    unread = [f"driver.{each}" for each in _DRIVER if getattr(state, each) is None]
    version = None if unread else installed(state) or "none"
    rules: tuple[Rule, ...] = (not_installed, version_differs, rules_module.runfile)
    yield Check("driver", version, rules, next(iter(unread), ""), mended=True)
    yield Check("driver for its GPUs", rules=(rules_gpus.unsupported_gpu,))
    yield Check("nouveau", rules=(rules_module.nouveau,), about="nouveau", mended=True)
    firmware = secure_boot.state if secure_boot else None
    rules = (rules_module.secure_boot, rules_module.no_signing_key)
    yield Check("Secure Boot", firmware, rules, "driver.secure-boot")
    holders = state.processes
    using = None if holders is None else jobs(holders, "libraries") or "none"
    yield Check("GPU processes", using, (rules_gpus.in_use,), "driver.processes")


CHECKED = Checked({"GPUs": _gpus, "GPU software": _driver}, of_server=("driver.", "host.memory"))

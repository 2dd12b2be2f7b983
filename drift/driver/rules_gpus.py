"""Driver rules about GPUs: of one known model, supported, as many as wanted, and free."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpu_node.drift.driver.boot import bootable
from gpu_node.drift.driver.rules_driver_packages import package_missing
from gpu_node.drift.driver.target import (
    best,
    branch,
    has_no_gpu,
    installed,
    is_open,
    model_of,
    models,
    newer,
    support,
)
from gpu_node.drift.engine.nodes import Nodes
from gpu_node.drift.engine.rule import Fault, on_node, rule
from gpu_node.drift.engine.subject import Gpu, Subject, Thing
from gpu_node.drift.host.machine import is_container
from gpu_node.drift.tables import is_model, kinds
from gpu_node.facts.driver.gpu_holders import jobs
from gpu_node.facts.driver.state import DriverState
from gpu_node.facts.node import NodeState
from gpu_node.inventories.schema import DriverWanted, NodeWanted

_MIXED = (
    "a job waits for the slowest GPU, has the memory of the smallest one, and its settings fit one "
    "model; a card for a display is no GPU to train on"
)


def cards(state: DriverState) -> list[str]:
    """Return each GPU's model by nvidia-smi, else by its PCI id; the id where no table has it."""
    named = [gpu.name for gpu in state.smi.gpus] if state.smi else []
    devices = state.devices or ()
    if named and len(named) >= len(devices):
        return named
    return [model_of(device.id) or device.id for device in devices]


def counted(names: list[str]) -> str:
    """Return GPUs as text: 2 x Tesla V100-PCIE-32GB, 1 x PCI id 10de:2bb1."""
    named = [re.sub(r"^0x(?=[0-9a-fA-F]{4}$)", "PCI id 10de:", name) for name in names]
    return ", ".join(f"{named.count(each)} x {each}" for each in dict.fromkeys(named))


@rule(
    "driver.mixed-gpus",
    ("warning", "error"),
    whole=True,
    between=True,
    always=True,
    why=_MIXED,
    manual="take the other cards out, or turn their slots off in the firmware",
    alone="Set CUDA_VISIBLE_DEVICES to the GPUs of one model.",
)
def mixed_gpus(state: NodeState, wanted: NodeWanted, nodes: Nodes) -> Iterator[Fault]:
    """The node's GPUs are of several models, or of one model with different memory."""
    names = cards(state.driver)
    if len(kinds(names)) > 1:
        yield Fault(
            subject="GPUs",
            found=counted(names),
            wanted="GPUs of one model",
            cause="" if nodes.newcomer is None else f"{_MIXED}; it cannot be onboarded as it is",
            severity=None if nodes.newcomer is None else "error",
        )
    elif len(set(names)) > 1:
        yield Fault(
            subject="GPUs",
            found=counted(names),
            wanted="GPUs that are alike",
            cause="they are of one model but differ: the smallest and slowest limits a job",
            fix="make them alike, or continue as they are",
        )


@rule(
    "driver.no-gpu",
    "error",
    between=True,
    always=True,
    stops="every",
    why="a server without a GPU trains nothing, and neither the PCI bus nor a driver shows one",
    manual="look with lspci -d 10de:; a card that is plugged in may need power, or the firmware; "
    "for a node that only launches jobs write gpu: none in the inventory",
    alone="Leave the node out of the job.",
)
def no_gpu(node: NodeState, wanted: NodeWanted, nodes: Nodes) -> Iterator[Fault]:
    """Neither the PCI bus nor a driver shows an NVIDIA GPU."""
    # Of a count that is wanted it is driver.gpu-differs; nothing may hide a newcomer's.
    is_bare = node.driver.devices == () and not cards(node.driver)
    if (nodes.newcomer and is_bare) or (wanted.gpu is None and has_no_gpu(node)):
        yield Fault(
            subject="GPUs",
            found="none",
            wanted="NVIDIA GPUs",
        )


@rule(
    "driver.unknown-gpu",
    ("error", "warning"),
    whole=True,
    between=True,
    newcomers=True,
    why="no table has this model: which driver, CUDA and precision it takes is not judged",
    manual="name the group of the server: --group",
)
def unknown_gpu(state: NodeState, wanted: NodeWanted, nodes: Nodes) -> Iterator[Fault]:
    """A GPU is of a model that no table has."""
    names = cards(state.driver)
    if len(kinds(names)) == 1 and not all(map(support, names)):
        is_named = nodes.newcomer is not None and nodes.newcomer.group is not None
        yield Fault(
            subject="GPUs",
            found=counted(names),
            wanted="a model that gpu-node knows",
            severity="warning" if is_named else None,
        )


@rule(
    "driver.in-use",
    "warning",
    newcomers=True,
    why="while a process uses the GPUs, the deploy refuses the steps that would hurt it",
    manual="let the processes end before the deploy",
)
def in_use(state: DriverState, wanted: DriverWanted) -> Iterator[Fault]:
    """A process uses the GPUs of a server that is to become a node."""
    shown = jobs(state.processes or (), "libraries")
    if shown:
        yield Fault(
            subject="GPU processes",
            found=shown,
            wanted="none",
        )


@rule(
    "driver.unsupported-gpu",
    ("error", "warning"),
    whole=True,
    always=True,
    stops="every",
    why="the driver ignores a GPU that it does not support, and programs do not find it",
    manual="install a driver branch, and the kind of module (open or proprietary), that "
    "supports the GPU",
    alone="Leave the node out of the job.",
)
def unsupported_gpu(state: NodeState, wanted: NodeWanted) -> Iterator[Fault]:
    """The driver that is wanted, or installed, does not drive one of the node's GPUs."""
    own = wanted.driver.version if wanted.driver else None
    versions = {"wanted": own, "installed": state.driver.library or None}
    gpus = models(state, wanted)
    last = best(gpus, state.toolchain.kernel)
    for gpu in gpus:
        limits = support(gpu)
        if limits is None:
            continue
        for how, version in versions.items():
            if version and limits.last is not None and branch(version) > limits.last:
                yield Fault(
                    subject=Gpu(gpu),
                    found=f"{version} {how}",
                    wanted=f"at most branch {limits.last}",
                    cause=f"branch {limits.last} is the last that supports it: a newer "
                    f"one 'will ignore this GPU'; CUDA {limits.cuda} is its last CUDA",
                    fix=f"driver: {{version: {last}}}"
                    if how == "wanted"
                    else f"install a driver of branch {last}, and hold it there",
                    stops=how == "installed",
                )
            elif version and branch(version) < limits.first:
                yield Fault(
                    subject=Gpu(gpu),
                    found=f"{version} {how}",
                    wanted=f"branch {limits.first} or newer",
                    cause="it is older than the first CUDA that supports this GPU",
                    fix="a driver of branch "
                    + (newer(str(limits.first), state, wanted) or f"{limits.first}"),
                    severity="warning",
                )
        yield from _of_the_other_kind(state.driver, gpu, limits.open)


def _of_the_other_kind(state: DriverState, gpu: str, allowed: str) -> Iterator[Fault]:
    """Yield a fault where the module is the open one and may not be, or must be and is not."""
    kinds = {is_open(each.module) for each in bootable(state) if each.module}
    now = state.loaded.is_open if state.loaded and state.loaded.nvidia else None
    if now is not None:
        kinds.add(now)
    for kind in sorted(kinds):
        if (kind and allowed == "no") or (not kind and allowed == "only"):
            has, needs = ("open", "proprietary") if kind else ("proprietary", "open")
            yield Fault(
                subject=Gpu(gpu),
                found=f"the {has} kernel module",
                wanted=f"the {needs} one",
                cause="the open module needs Turing or newer: it ignores this GPU"
                if kind
                else "only the open module supports this GPU",
                fix=f"install the driver's {needs} packages: a meta package may have changed the "
                "kind",
                stops=kind is now,
            )


@rule(
    "driver.smi-fails",
    ("error", "warning"),
    whole=True,
    because_of=(on_node(package_missing), on_node(unsupported_gpu)),
    always=True,
    stops="every",
    why="the module is there, and no GPU answers: one may have fallen off the bus, or the "
    "driver does not support it",
    manual="look for NVRM and Xid in dmesg; a GPU that is off the bus needs a power cycle",
    alone="Leave the node out of the job.",
)
def smi_fails(node: NodeState, wanted: NodeWanted) -> Iterator[Fault]:
    """nvidia-smi shows no GPU, or not all, although the module is loaded and fits the library."""
    state = node.driver
    if state.smi is None or state.loaded is None or not state.loaded.nvidia:
        return
    if state.smi.skipped:
        return  # the module was loaded only after that
    # A container may have been given some of the GPUs, and vfio-pci has those of a virtual machine.
    own = [device for device in state.devices or () if device.driver in ("nvidia", "")]
    if 0 < len(state.smi.gpus) < len(own) and not is_container(node):
        yield Fault(
            subject="nvidia-smi",
            found=f"{len(state.smi.gpus)} of {len(own)} GPUs answer",
            wanted="each GPU of the PCI bus",
            cause=state.smi.output or "one may have fallen off the bus",
            fix="look for NVRM and Xid in dmesg; a GPU that is off the bus needs a power cycle",
            fixable=False,
            severity="warning",
        )
    if state.smi.gpus or state.loaded.nvidia != state.library:
        return  # the mismatch has a rule of its own
    if state.smi.code is None:
        yield Fault(
            subject="nvidia-smi",
            found="not installed",
            wanted="the GPUs",
            cause="programs of CUDA run without it; number, memory and errors of the GPUs are not "
            "read",
            fix="install the driver's package that has it: nvidia-utils-BRANCH on Ubuntu, "
            "nvidia-smi on Debian, nvidia-driver-cuda on the rpm family; and name it in driver: "
            "{packages: ...}",
            stops=False,
        )
        return
    yield Fault(
        subject="nvidia-smi",
        found=f"{state.smi.output or 'no GPU'} (exit {state.smi.code})",
        wanted="the GPUs",
    )


def _is_count(about: Subject) -> bool:
    return about == Thing("count")


def _other_count(wanted: NodeWanted, count: int, driver: str | None) -> str:
    """Return what a person does about another number of GPUs, where the rule's words do not fit."""
    if wanted.is_cpu_node:
        return "write gpu: {model: ..., count: ...}, or take the GPUs out"
    if wanted.gpu and count > wanted.gpu.count:
        return f"write count: {count}, or correct the node's group, in the inventory"
    if count or driver:
        return ""
    return (
        "look with lspci -d 10de:; a card that is plugged in may need power, or the firmware; or "
        "correct gpu in the inventory: gpu: none is a node that only launches jobs"
    )


@rule(
    "driver.gpu-differs",
    "error",
    whole=True,
    because_of=(on_node(unsupported_gpu), on_node(smi_fails, explains=_is_count)),
    key="gpu.model",
    stops="every",
    why="a launcher starts one rank for each GPU that it expects, and settings are chosen by "
    "GPU model",
    manual="look for a GPU that fell off the bus (dmesg: Xid 79, lspci -d 10de:), or correct gpu, "
    "or the node's group, in the inventory",
)
def gpu_differs(node: NodeState, wanted: NodeWanted) -> Iterator[Fault]:
    """The node has other GPUs than the inventory says."""
    state = node.driver
    if wanted.gpu is None or state.devices is None or state.smi is None:
        return
    count = len(state.smi.gpus) or len(state.devices)
    names = models(node, wanted)
    if count != wanted.gpu.count:
        yield Fault(
            subject="count",
            found=str(count),
            wanted=str(wanted.gpu.count),
            fix=_other_count(wanted, count, installed(state)),
            stops=count < wanted.gpu.count,
        )
    wrong = [name for name in names if not is_model(name, wanted.gpu.model)]
    if wrong and count and wanted.gpu.count:
        yield Fault(
            subject="model",
            found=", ".join(wrong),
            wanted=wanted.gpu.model,
            fix="correct gpu, or the node's group, in the inventory",
            stops=False,
        )

"""Driver rules about GPUs: known, supported, as many as wanted, free, and kept initialized."""

import re
from collections.abc import Iterator
from dataclasses import replace

from gpu_node.drift.driver.boot import bootable
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
from gpu_node.drift.engine.rule import At, Fault, check, unknown
from gpu_node.drift.engine.subject import Gpu
from gpu_node.drift.host.machine import is_container
from gpu_node.drift.tables import is_model, kinds
from gpu_node.facts.driver.gpu_holders import jobs
from gpu_node.facts.driver.state import DriverState
from gpu_node.inventories.wanted import DriverWanted, NodeWanted

_AWAY = "a GPU that lspci -k shows with 'Kernel driver in use: vfio-pci' is a virtual machine's"
_BACK = (
    "to train on them here, remove them from vfio-pci: vfio-pci.ids= on the kernel command line or "
    "ids= in /etc/modprobe.d, then rebuild the initramfs and reboot"
)


def cards(state: DriverState) -> list[str]:
    """Return each GPU's model by nvidia-smi, else by its PCI id; the id where no table has it."""
    named = [gpu.name for gpu in state.smi.gpus] if state.smi else []
    devices = state.own_devices or ()
    if named and len(named) >= len(devices):
        return named
    return [model_of(device.id) or device.id for device in devices]


def given_away(state: DriverState) -> str:
    """Return in words how many GPUs virtual machines get; empty where it is none."""
    drivers = [each.driver for each in state.devices or () if each.is_given_away]
    return f"{drivers[0]} has {len(drivers)}, for virtual machines" if drivers else ""


def counted(names: list[str]) -> str:
    """Return GPUs as text: 2 x Tesla V100-PCIE-32GB, 1 x PCI id 10de:2bb1."""
    named = [re.sub(r"^0x(?=[0-9a-fA-F]{4}$)", "PCI id 10de:", name) for name in names]
    return ", ".join(f"{named.count(each)} x {each}" for each in dict.fromkeys(named))


@check("driver.mixed-gpus")
def mixed_gpus(at: At) -> Iterator[Fault]:
    names = cards(at.node.driver)
    if len(kinds(names)) > 1:
        yield Fault(
            subject="GPUs",
            found=counted(names),
            wanted="GPUs of one model",
            also="" if at.newcomer is None else "it cannot be onboarded as it is",
            severity=None if at.newcomer is None else "error",
        )
    elif len(set(names)) > 1:
        yield Fault(
            subject="GPUs",
            found=counted(names),
            wanted="GPUs that are alike",
            cause="they are of one model but differ: the smallest and slowest limits a job",
            fix="make them alike, or continue as they are",
        )


@check("driver.mig")
def mig(at: At[DriverState, DriverWanted]) -> Iterator[Fault]:
    gpus = at.here.smi.gpus if at.here.smi else ()
    if split := sum(gpu.mig is True for gpu in gpus):
        yield Fault(
            subject="MIG",
            found=f"on for {split} of {len(gpus)} GPUs",
            wanted="off, for jobs on whole GPUs",
        )


@check("driver.no-gpu")
def no_gpu(at: At) -> Iterator[Fault]:
    if at.newcomer and at.node.driver.devices is None and not cards(at.node.driver):
        yield replace(unknown("GPUs", at.node, "driver.pci"), severity=None)
    # Of a count that is wanted it is driver.gpu-differs; nothing may hide a newcomer's.
    is_bare = at.node.driver.own_devices == () and not cards(at.node.driver)
    if (at.newcomer and is_bare) or (at.wanted.gpu is None and has_no_gpu(at.node)):
        away = given_away(at.node.driver)
        yield Fault(
            subject="GPUs",
            found=f"none: {away}" if away else "none",
            wanted="NVIDIA GPUs",
            cause=f"{_AWAY}: no job of this machine gets one" if away else "",
            fix=f"{_BACK}; or write gpu: none in the inventory" if away else "",
        )


@check("driver.unknown-gpu")
def unknown_gpu(at: At) -> Iterator[Fault]:
    names = cards(at.node.driver)
    if len(kinds(names)) == 1 and not all(map(support, names)):
        is_named = at.newcomer is not None and at.newcomer.group is not None
        yield Fault(
            subject="GPUs",
            found=counted(names),
            wanted="a model that gpu-node knows",
            severity="warning" if is_named else None,
        )


@check("driver.in-use")
def in_use(at: At[DriverState, DriverWanted]) -> Iterator[Fault]:
    shown = jobs(at.here.processes or (), "libraries")
    if shown:
        yield Fault(
            subject="GPU processes",
            found=shown,
            wanted="none",
        )


@check("driver.unsupported-gpu")
def unsupported_gpu(at: At) -> Iterator[Fault]:
    own = at.wanted.driver.version if at.wanted.driver else None
    versions = {"wanted": own, "installed": at.node.driver.library or None}
    gpus = models(at.node, at.wanted)
    last = best(gpus, at.node.toolchain.kernel)
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
                    + (newer(str(limits.first), at.node, at.wanted) or f"{limits.first}"),
                    severity="warning",
                )
        yield from _of_the_other_kind(at.node.driver, gpu, limits.open)


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


@check("driver.smi-fails")
def smi_fails(at: At) -> Iterator[Fault]:
    state = at.node.driver
    if state.smi is None or state.loaded is None or not state.loaded.nvidia:
        return
    if state.smi.skipped:
        return  # the module was loaded only after that
    # A container may have been given some of the GPUs.
    own = [device for device in state.own_devices or () if device.driver in ("nvidia", "")]
    if 0 < len(state.smi.gpus) < len(own) and not is_container(at.node):
        yield Fault(
            subject="nvidia-smi",
            found=f"{len(state.smi.gpus)} of {len(own)} GPUs answer",
            wanted="each GPU of the PCI bus",
            cause=state.smi.output or "one may have fallen off the bus",
            fixable=False,
            severity="warning",
        )
    is_given_away = bool(given_away(state)) and not state.own_devices
    if state.smi.gpus or state.loaded.nvidia != state.library or is_given_away:
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


@check("driver.gpu-differs")
def gpu_differs(at: At) -> Iterator[Fault]:
    state = at.node.driver
    if at.wanted.gpu is None or state.own_devices is None or state.smi is None:
        return
    count, away = len(state.smi.gpus) or len(state.own_devices), given_away(state)
    names = models(at.node, at.wanted)
    if count != at.wanted.gpu.count:
        yield Fault(
            subject="count",
            found=str(count),
            wanted=str(at.wanted.gpu.count),
            cause=f"{away}: {_AWAY}" if away else "",
            fix=f"{_BACK}; or correct gpu in the inventory"
            if away
            else _other_count(at.wanted, count, installed(state)),
            who="administrator" if away else None,
            stops=count < at.wanted.gpu.count,
            explains="none",
        )
    wrong = [name for name in names if not is_model(name, at.wanted.gpu.model)]
    if wrong and count and at.wanted.gpu.count:
        yield Fault(
            subject="model",
            found=", ".join(wrong),
            wanted=at.wanted.gpu.model,
            fix="correct gpu, or the node's group, in the inventory",
            stops=False,
            explained_by=("driver.unsupported-gpu",),
        )


@check("driver.persistence")
def persistence(at: At[DriverState, DriverWanted]) -> Iterator[Fault]:
    gpus = at.here.smi.gpus if at.here.smi else ()
    off = [gpu.uuid for gpu in gpus if gpu.persistence is False]
    is_on = bool(gpus) and all(gpu.persistence for gpu in gpus)
    if (
        at.want.persistence
        and is_on
        and at.here.loaded
        and at.here.loaded.keeps_persistence is False
    ):
        yield Fault(
            subject="persistence mode",
            found="on until the next boot",
            wanted="on",
            cause="no enabled unit, udev rule or start script turns it on: NVIDIA's installer "
            "installs none",
            fix="enable a unit that turns it on: gpu-node-persistence.service",
        )
    if at.want.persistence and off:
        yield Fault(
            subject="persistence mode",
            found=f"off on {len(off)} of {len(gpus)}",
            wanted="on",
            # A reload of systemd takes the GPUs from running containers.
        )

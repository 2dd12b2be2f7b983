"""Driver rules about GPUs: the module is loaded, fits library and GPU, and stays where it is."""

from __future__ import annotations

from collections.abc import Iterator

from drift.boot import bootable
from drift.builds import is_model
from drift.driver import (
    branch,
    buildable,
    builds,
    floor,
    is_built,
    is_open,
    models,
    running,
    source_of,
    support,
    target,
)
from drift.libnccl import environments
from drift.module import bars, hard_bars, removal, shown
from drift.rules.rule import Fault, rule
from facts.driver import DriverState
from facts.gpu_holders import jobs
from facts.node import NodeState
from inventories.schema import DriverWanted, NodeWanted


def _holders(found: DriverState) -> str:
    """Who keeps the module from being loaded anew, as text; empty where nobody does."""
    return jobs(found.processes or (), "reload")


@rule("driver.not-loaded", "error")
def not_loaded(found: DriverState, wanted: DriverWanted) -> Iterator[Fault]:
    """The running kernel has the module, and it is not loaded."""
    version, kernel = target(found, wanted), running(found)
    if version is None or kernel is None or found.loaded is None or found.loaded.nvidia:
        return
    if is_built(kernel, version) or source_of(found, version):
        said = found.smi.said if found.smi else ""
        hard = hard_bars(found)
        causes = [f"{shown(bar)} keeps it out" for bar in bars(found)]
        yield Fault(
            subject="nvidia",
            found=f"not loaded ({said})" if said else "not loaded",
            wanted=f"{version} loaded",
            cause="; ".join([*causes, "there are no GPUs until it is loaded"]),
            fix=f"{'; '.join(map(removal, hard))}; then: modprobe nvidia"
            if hard
            else "modprobe nvidia"
            if is_built(kernel, version)
            else "modprobe nvidia, once it is built",
            # An admin's line is meant: the deploy never works around it.
            fixable=not hard and (is_built(kernel, version) or builds(found, wanted, version)),
        )


@rule("driver.library-mismatch", "error")
def library_mismatch(found: DriverState, wanted: DriverWanted) -> Iterator[Fault]:
    """The loaded module is not of the version of the user-space library."""
    if not found.loaded or not found.loaded.nvidia or not found.library:
        return
    loaded, library, kernel = found.loaded.nvidia, found.library, running(found)
    if loaded == library:
        return
    has_source = buildable(found, library) is not None
    ready = kernel is not None and is_built(kernel, library)
    holders = _holders(found)
    is_there = ready or (has_source and kernel is not None)
    curable = target(found, wanted) == library and is_there and not hard_bars(found)
    if hard_bars(found):
        lines = ", ".join(map(shown, hard_bars(found)))
        fix = f"{lines} keeps the module out: remove it first, then load the module anew"
    elif curable:
        fix = "load the module anew; that is enough, no reboot is due"
        if holders:
            fix = f"end {holders}, then load the module anew; neither is done under a running job"
    else:
        fix = f"install the driver's dkms package of {library}, or put the library of {loaded} back"
    yield Fault(
        subject="nvidia",
        found=f"module {loaded}, library {library}",
        wanted=library,
        cause="'Failed to initialize NVML: Driver/library version mismatch': the packages were "
        "updated under the module that is loaded",
        fix=fix,
        fixable=curable,
    )


@rule("driver.smi-fails", "error")
def smi_fails(found: DriverState, wanted: DriverWanted) -> Iterator[Fault]:
    """nvidia-smi fails although the module is loaded and fits the library."""
    if found.smi is None or found.loaded is None or not found.loaded.nvidia:
        return
    if found.smi.skipped:
        return  # the module was loaded only after that
    if found.smi.gpus or found.loaded.nvidia != found.library:
        return  # the mismatch has a rule of its own
    yield Fault(
        subject="nvidia-smi",
        found="not installed"
        if found.smi.code is None
        else f"{found.smi.said or 'no GPU'} (exit {found.smi.code})",
        wanted="the GPUs",
        cause="the module is there, and no GPU answers: one may have fallen off the bus, or the "
        "driver does not support it",
        fix="look for NVRM and Xid in dmesg; a GPU that is off the bus needs a power cycle"
        if found.smi.code is not None
        else "install the driver's package that has it: nvidia-utils-BRANCH on Ubuntu, nvidia-smi "
        "on Debian, nvidia-driver-cuda on the rpm family; and name it in driver: {packages: ...}",
        fixable=False,
    )


@rule("driver.gpu-differs", "error", whole=True)
def gpu_differs(found: NodeState, wanted: NodeWanted) -> Iterator[Fault]:
    """The node has other GPUs than the inventory says."""
    state = found.driver
    if wanted.driver is None or wanted.gpu is None or state.devices is None or state.smi is None:
        return
    count = len(state.smi.gpus) or len(state.devices)
    names = models(found, wanted)
    if count != wanted.gpu.count:
        yield Fault(
            subject="count",
            found=str(count),
            wanted=str(wanted.gpu.count),
            cause="a launcher starts one rank for each GPU that it expects",
            fix="look for a GPU that fell off the bus (dmesg: Xid 79, lspci -d 10de:), or mend "
            "gpu.count in the inventory",
            fixable=False,
        )
    wrong = [name for name in names if not is_model(name, wanted.gpu.model)]
    if wrong and count:
        yield Fault(
            subject="model",
            found=", ".join(wrong),
            wanted=wanted.gpu.model,
            cause="what is right for a GPU is chosen by its model",
            fix="mend gpu.model, or the node's group, in the inventory",
            fixable=False,
        )


@rule("driver.unsupported-gpu", "error", whole=True)
def unsupported_gpu(found: NodeState, wanted: NodeWanted) -> Iterator[Fault]:
    """The driver that is wanted, or installed, does not drive one of the node's GPUs."""
    if wanted.driver is not None:
        yield from unsupported(found.driver, models(found, wanted), wanted.driver)


def unsupported(state: DriverState, gpus: tuple[str, ...], wanted: DriverWanted) -> Iterator[Fault]:
    """Yield a fault for each of the models `gpus` that a driver, wanted or there, leaves alone."""
    versions = {"wanted": wanted.version, "installed": state.library or None}
    for gpu in gpus:
        limits = support(gpu)
        if limits is None:
            continue
        for how, version in versions.items():
            if version and limits.last is not None and branch(version) > limits.last:
                yield Fault(
                    subject=gpu,
                    found=f"{version} {how}",
                    wanted=f"at most branch {limits.last}",
                    cause=f"branch {limits.last} is the last that drives it: a newer one 'will "
                    f"ignore this GPU'; CUDA {limits.cuda} is its last, too",
                    fix=f"driver: {{version: {limits.last}}}"
                    if how == "wanted"
                    else f"install a driver of branch {limits.last}, and hold it there",
                    fixable=False,
                )
            elif version and branch(version) < limits.first:
                yield Fault(
                    subject=gpu,
                    found=f"{version} {how}",
                    wanted=f"branch {limits.first} or newer",
                    cause="it is older than the first CUDA that knows this GPU",
                    fix=f"a driver of branch {limits.first} or newer",
                    fixable=False,
                    severity="warning",
                )
        yield from _of_the_other_kind(state, gpu, limits.open)


def _of_the_other_kind(found: DriverState, gpu: str, allowed: str) -> Iterator[Fault]:
    """Yield a fault where the module is the open one and may not be, or must be and is not."""
    kinds = {is_open(each.module) for each in bootable(found) if each.module}
    if found.loaded and found.loaded.nvidia:
        kinds.add(found.loaded.is_open)
    for kind in sorted(kinds):
        if (kind and allowed == "no") or (not kind and allowed == "only"):
            has, needs = ("open", "proprietary") if kind else ("proprietary", "open")
            yield Fault(
                subject=gpu,
                found=f"the {has} kernel module",
                wanted=f"the {needs} one",
                cause="the open module needs Turing or newer: it leaves this GPU alone"
                if kind
                else "this GPU is driven by the open module alone",
                fix=f"install the driver's {needs} packages: a meta package may have switched",
                fixable=False,
            )


@rule("driver.too-old", "error", whole=True)
def too_old(found: NodeState, wanted: NodeWanted) -> Iterator[Fault]:
    """The driver is older than the CUDA of an environment's torch asks for.

    libcuda decides: NVIDIA's cuda-compat brings one of a newer driver.
    """
    cuda_library = found.driver.cuda
    version = (cuda_library.version if cuda_library else "") or found.driver.library
    by = ""
    if cuda_library and version != found.driver.library:
        by = f"; programs load {cuda_library.path}, and the driver is {found.driver.library}"
    for prefix, environment in environments(found.nccl) if wanted.driver and version else ():
        cuda = environment.torch.cuda if environment.torch else None
        first = floor(cuda) if cuda else None
        if first is not None and branch(version or "") < first:
            yield Fault(
                subject=f"driver for {prefix}",
                found=f"{version}",
                wanted=f"branch {first} or newer, for CUDA {cuda}",
                cause=f"'The NVIDIA driver on your system is too old': torch finds no GPU{by}",
                fix="remove the folder of that libcuda from LD_LIBRARY_PATH or /etc/ld.so.conf.d"
                if by and branch(found.driver.library or "0") >= first
                else f"install a driver of branch {first} or newer, or a torch for an older CUDA",
                fixable=False,
            )


@rule("driver.persistence", "warning")
def persistence(found: DriverState, wanted: DriverWanted) -> Iterator[Fault]:
    """Persistence mode is off on a GPU, or will be after the next boot."""
    gpus = found.smi.gpus if found.smi else ()
    off = [gpu.uuid for gpu in gpus if gpu.persistence is False]
    is_on = bool(gpus) and all(gpu.persistence for gpu in gpus)
    if wanted.persistence and is_on and found.loaded and found.loaded.keeps_persistence is False:
        yield Fault(
            subject="persistence mode",
            found="on until the next boot",
            wanted="on",
            cause="no enabled unit, udev rule or start script turns it on: NVIDIA's installer "
            "brings none",
            fix="enable a unit that turns it on: gpu-node-persistence.service",
        )
    if wanted.persistence and off:
        yield Fault(
            subject="persistence mode",
            found=f"off on {len(off)} of {len(gpus)}",
            wanted="on",
            cause="the driver lets go of idle GPUs: each first call takes seconds, and what was "
            "set (ECC, clocks, power) is forgotten",
            # A reload of systemd takes the GPUs from running containers.
            fix="nvidia-smi -pm 1, and: systemctl --no-reload enable nvidia-persistenced",
        )


@rule("driver.unit-waits", "info")
def unit_waits(found: DriverState, wanted: DriverWanted) -> Iterator[Fault]:
    """systemd has not read a file of a unit since the deploy wrote it."""
    if not wanted.persistence:
        return
    for file in found.waiting or ():
        yield Fault(
            subject=file,
            found="newer than what systemd has read",
            wanted="in effect from the next boot on",
            cause="a reload of systemd takes the GPUs from running containers ('Failed to "
            "initialize NVML: Unknown Error'): the deploy leaves it out while one has GPUs",
            fix="nothing to do: the next boot reads it; to have it now, when no container needs "
            "its GPUs, run the deploy with --data allow_disruption=true",
            fixable=False,
        )

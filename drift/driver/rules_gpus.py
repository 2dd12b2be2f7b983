"""Driver rules about GPUs: the module is loaded, fits library and GPU, and stays where it is."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_node.drift.driver.boot import bootable
from gpu_node.drift.driver.module import bars, hard_bars, removal, shown
from gpu_node.drift.driver.rules import module_not_built, version_differs
from gpu_node.drift.driver.rules_driver_packages import package_missing
from gpu_node.drift.driver.rules_risks import nouveau, secure_boot
from gpu_node.drift.driver.target import (
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
from gpu_node.drift.engine.rule import Fault, on_node, on_subject, rule
from gpu_node.drift.engine.subject import DriverFor, Gpu, LoadedModule, Path, Subject
from gpu_node.drift.nccl.libnccl import environments
from gpu_node.drift.tables import is_model
from gpu_node.drift.toolchain.rules_compat import compat_library
from gpu_node.facts.driver.gpu_holders import jobs
from gpu_node.facts.driver.state import DriverState
from gpu_node.facts.node import NodeState
from gpu_node.inventories.schema import DriverWanted, NodeWanted


def _holders(found: DriverState) -> str:
    """Return the jobs that prevent a reload of the module, as text; empty where there are none."""
    return jobs(found.processes or (), "reload")


@rule(
    "driver.not-loaded",
    "error",
    step="driver",
    because_of=(on_subject(module_not_built), on_subject(secure_boot), on_subject(nouveau)),
    always=True,
    why="There are no GPUs until the module is loaded.",
    manual="Run modprobe nvidia.",
    repair="Loads the module. With --data reboot=true the node reboots where loading fails.",
    alone="Leave the node out of the job.",
)
def not_loaded(found: DriverState, wanted: DriverWanted) -> Iterator[Fault]:
    """The running kernel has the module, and it is not loaded."""
    version, kernel = target(found, wanted), running(found)
    if version is None or kernel is None or found.loaded is None or found.loaded.nvidia:
        return
    if is_built(kernel, version) or source_of(found, version):
        output = found.smi.output if found.smi else ""
        hard = hard_bars(found)
        causes = [f"{shown(bar)} prevents loading" for bar in bars(found)]
        yield Fault(
            subject=LoadedModule("nvidia", kernel.name),
            found=f"not loaded ({output})" if output else "not loaded",
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


@rule(
    "driver.library-mismatch",
    "error",
    step="driver",
    always=True,
    why="CUDA programs end with 'Driver/library version mismatch'.",
    manual="End all GPU processes, then load the module again (modprobe -r, modprobe nvidia), "
    "or reboot.",
    repair="Unloads and loads the module while no process uses the GPUs. With --data "
    "reboot=true the node reboots where that fails.",
    alone="Leave the node out of the job.",
)
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
        fix = f"{lines} prevents loading the module: remove it first, then load the module again"
    elif curable:
        fix = "load the module again; no reboot is needed"
        if holders:
            fix = f"end {holders}, then load the module again; the deploy does neither during a job"
    else:
        fix = f"install the driver's dkms package of {library}, or restore the library of {loaded}"
    yield Fault(
        subject=LoadedModule("nvidia", kernel.name if kernel else ""),
        found=f"module {loaded}, library {library}",
        wanted=library,
        cause="'Failed to initialize NVML: Driver/library version mismatch': the packages "
        "were updated while the old module stayed loaded",
        fix=fix,
        fixable=curable,
    )


@rule(
    "driver.unsupported-gpu",
    ("error", "warning"),
    whole=True,
    always=True,
    why="The driver ignores a GPU that it does not support, and programs do not find it.",
    manual="Install a driver branch, and the kind of module (open or proprietary), that "
    "supports the GPU.",
    alone="Leave the node out of the job.",
)
def unsupported_gpu(found: NodeState, wanted: NodeWanted) -> Iterator[Fault]:
    """The driver that is wanted, or installed, does not drive one of the node's GPUs."""
    driver = wanted.driver or DriverWanted()
    yield from unsupported(found.driver, models(found, wanted), driver)


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
                    subject=Gpu(gpu),
                    found=f"{version} {how}",
                    wanted=f"at most branch {limits.last}",
                    cause=f"branch {limits.last} is the last that supports it: a newer "
                    f"one 'will ignore this GPU'; CUDA {limits.cuda} is its last CUDA",
                    fix=f"driver: {{version: {limits.last}}}"
                    if how == "wanted"
                    else f"install a driver of branch {limits.last}, and hold it there",
                    fixable=False,
                )
            elif version and branch(version) < limits.first:
                yield Fault(
                    subject=Gpu(gpu),
                    found=f"{version} {how}",
                    wanted=f"branch {limits.first} or newer",
                    cause="it is older than the first CUDA that supports this GPU",
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
                subject=Gpu(gpu),
                found=f"the {has} kernel module",
                wanted=f"the {needs} one",
                cause="the open module needs Turing or newer: it ignores this GPU"
                if kind
                else "only the open module supports this GPU",
                fix=f"install the driver's {needs} packages: a meta package may have changed the "
                "kind",
                fixable=False,
            )


@rule(
    "driver.smi-fails",
    "error",
    because_of=(on_node(package_missing), on_node(unsupported_gpu)),
    always=True,
    why="No GPU answers: one may have fallen off the bus, or the driver does not support it.",
    manual="Look for NVRM and Xid in dmesg. A GPU that is off the bus needs a power cycle.",
    alone="Leave the node out of the job.",
)
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
        else f"{found.smi.output or 'no GPU'} (exit {found.smi.code})",
        wanted="the GPUs",
        cause="the module is there, and no GPU answers: one may have fallen off the bus, or the "
        "driver does not support it",
        fix="look for NVRM and Xid in dmesg; a GPU that is off the bus needs a power cycle"
        if found.smi.code is not None
        else "install the driver's package that has it: nvidia-utils-BRANCH on Ubuntu, nvidia-smi "
        "on Debian, nvidia-driver-cuda on the rpm family; and name it in driver: {packages: ...}",
        fixable=False,
    )


@rule(
    "driver.gpu-differs",
    "error",
    whole=True,
    because_of=(on_node(unsupported_gpu),),
    key="gpu.model",
    why="A launcher starts one rank for each GPU that it expects, and settings are chosen "
    "by GPU model.",
    manual="Look for a lost GPU (dmesg: Xid 79; lspci -d 10de:), or correct gpu in the inventory.",
)
def gpu_differs(found: NodeState, wanted: NodeWanted) -> Iterator[Fault]:
    """The node has other GPUs than the inventory says."""
    state = found.driver
    if wanted.gpu is None or state.devices is None or state.smi is None:
        return
    count = len(state.smi.gpus) or len(state.devices)
    names = models(found, wanted)
    if count != wanted.gpu.count:
        yield Fault(
            subject="count",
            found=str(count),
            wanted=str(wanted.gpu.count),
            cause="a launcher starts one rank for each GPU that it expects",
            fix="look for a GPU that fell off the bus (dmesg: Xid 79, lspci -d 10de:), or correct "
            "gpu.count in the inventory",
            fixable=False,
        )
    wrong = [name for name in names if not is_model(name, wanted.gpu.model)]
    if wrong and count:
        yield Fault(
            subject="model",
            found=", ".join(wrong),
            wanted=wanted.gpu.model,
            cause="settings are chosen by GPU model",
            fix="correct gpu.model, or the node's group, in the inventory",
            fixable=False,
        )


def _wanted_suffices(driver: Subject) -> bool:
    """Whether the driver that the inventory wants is new enough for the environment."""
    return isinstance(driver, DriverFor) and driver.wanted_suffices


def _installed_suffices(driver: Subject) -> bool:
    """Whether programs load another libcuda than the driver's, which is new enough."""
    return isinstance(driver, DriverFor) and driver.installed_suffices


@rule(
    "driver.too-old",
    "error",
    whole=True,
    because_of=(
        on_node(compat_library, explains=_installed_suffices),
        on_node(version_differs, explains=_wanted_suffices),
    ),
    always=True,
    why="torch finds no GPU: 'The NVIDIA driver on your system is too old'.",
    manual="Install a newer driver branch, or a torch that is built for an older CUDA.",
    alone="Install a torch that is built for the CUDA of the installed driver.",
)
def too_old(found: NodeState, wanted: NodeWanted) -> Iterator[Fault]:
    """The driver is older than the CUDA of an environment's torch asks for.

    libcuda decides: NVIDIA's cuda-compat brings one of a newer driver.
    """
    cuda_library = found.driver.cuda
    version = (cuda_library.version if cuda_library else "") or found.driver.library
    by = ""
    if cuda_library and version != found.driver.library:
        by = f"; programs load {cuda_library.path}, and the driver is {found.driver.library}"
    for prefix, environment in environments(found.nccl) if version else ():
        cuda = environment.torch.cuda if environment.torch else None
        first = floor(cuda) if cuda else None
        if first is not None and branch(version or "") < first:
            asked = wanted.driver.version if wanted.driver else None
            suffices = not by and asked is not None and branch(asked) >= first
            has = bool(by) and branch(found.driver.library or "0") >= first
            yield Fault(
                subject=DriverFor(prefix, suffices, has),
                found=f"{version}",
                wanted=f"branch {first} or newer, for CUDA {cuda}",
                cause=f"'The NVIDIA driver on your system is too old': torch finds no GPU{by}",
                fix="remove the folder of that libcuda from LD_LIBRARY_PATH or /etc/ld.so.conf.d"
                if has
                else f"install a driver of branch {first} or newer, or a torch for an older CUDA",
                fixable=False,
            )


@rule(
    "driver.persistence",
    "warning",
    step="driver",
    key="driver.persistence",
    why="The driver releases idle GPUs: each first call takes seconds, and settings of the "
    "GPU are lost.",
    manual="Run nvidia-smi -pm 1, and systemctl --no-reload enable nvidia-persistenced.",
    repair="Enables nvidia-persistenced, or a unit gpu-node-persistence.service, and turns the"
    " mode on.",
    alone="Keep the GPUs open: run nvidia-smi -l 60 >/dev/null in the background.",
)
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
            "installs none",
            fix="enable a unit that turns it on: gpu-node-persistence.service",
        )
    if wanted.persistence and off:
        yield Fault(
            subject="persistence mode",
            found=f"off on {len(off)} of {len(gpus)}",
            wanted="on",
            cause="the driver releases idle GPUs: each first call takes seconds, "
            "and settings (ECC, clocks, power) are lost",
            # A reload of systemd takes the GPUs from running containers.
            fix="nvidia-smi -pm 1, and: systemctl --no-reload enable nvidia-persistenced",
        )


@rule(
    "driver.unit-waits",
    "info",
    key="driver.persistence",
    why="The unit takes effect only at the next boot. A reload of systemd can take the GPUs from "
    "running containers, so the deploy does not run one.",
    manual="Nothing is required. To reload now, run the deploy with --data allow_disruption=true "
    "while no container needs GPUs.",
)
def unit_waits(found: DriverState, wanted: DriverWanted) -> Iterator[Fault]:
    """The deploy wrote a systemd unit, and systemd has not loaded it yet."""
    if not wanted.persistence:
        return
    for file in found.waiting or ():
        yield Fault(
            subject=Path(file),
            found="newer than what systemd has read",
            wanted="in effect from the next boot on",
            cause="a reload of systemd takes the GPUs from running containers ('Failed to "
            "initialize NVML: Unknown Error'): the deploy does not reload while one has GPUs",
            fix="nothing to do: the next boot reads it; to reload now, while no "
            "container needs GPUs, run the deploy with --data allow_disruption=true",
            fixable=False,
        )

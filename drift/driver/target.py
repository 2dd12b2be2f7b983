"""The driver as it should be: the version that every kernel needs, and what a GPU can take."""

import re
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from gpu_node.drift.driver.boot import bootable, next_boot, version_order
from gpu_node.drift.driver.module import bars, follows_dkms, unsigned
from gpu_node.drift.host.machine import is_machine
from gpu_node.drift.tables import capability, pip_torch, rows
from gpu_node.facts.driver.kernels import Kernel, Module, Source
from gpu_node.facts.driver.state import DriverState
from gpu_node.facts.node import NodeState
from gpu_node.inventories.versions import numbers
from gpu_node.inventories.wanted import DriverWanted, NodeWanted


class Support(NamedTuple):
    """A row of driver_branches.tsv: the driver branches that a compute capability can take."""

    first: int
    last: int | None
    open: str
    cuda: int | None


def _number(text: str) -> int | None:
    return None if text == "-" else int(text)


@cache
def _supports() -> dict[tuple[int, int], Support]:
    return {
        (int(major), int(minor)): Support(
            int(row["first"]), _number(row["last"]), row["open"], _number(row["cuda"])
        )
        for row in rows("driver_branches.tsv")
        for major, minor in [row["capability"].split(".")]
    }


@cache
def models_by_id() -> dict[str, str]:
    """Return the models of the GPUs that pci_ids.tsv knows, by their PCI device ids."""
    return {row["id"]: row["model"] for row in rows("pci_ids.tsv")}


@cache
def _floors() -> dict[int, int]:
    return {int(row["cuda"]): int(row["first"]) for row in rows("cuda_floors.tsv")}


def floor(cuda: str) -> int | None:
    """Return the oldest driver branch that runs a CUDA such as 12.1; None for one of no table."""
    return _floors().get(int(cuda.partition(".")[0]))


def support(gpu: str) -> Support | None:
    """Return what a GPU, by its name, can take; None for one that no table knows."""
    return _supports().get(capability(gpu) or (0, 0))


def last_cuda(cuda: str, gpu: str) -> int | None:
    """Return the last CUDA for a GPU, where one such as 13.0 is newer; None: it compiles for it."""
    limits = support(gpu)
    last = limits.cuda if limits else None
    return last if last is not None and int(cuda.partition(".")[0]) > last else None


def against_gpu(number: int, gpu: str) -> str:
    """Return why a driver branch does not support a GPU; empty where it does, or is unknown."""
    limits = support(gpu)
    if limits is not None and limits.last is not None and number > limits.last:
        return f"branch {limits.last} is the last that supports {gpu}"
    if limits is not None and number < limits.first:
        return f"branch {limits.first} is the first that supports {gpu}"
    return ""


class Branch(NamedTuple):
    """A row of drivers.tsv: a driver branch, the oldest kernel, until when it is maintained."""

    number: int
    kernel: str
    until: str

    def runs_on(self, kernel: str) -> bool:
        """Whether it can be built for a kernel."""
        return version_order(kernel) >= version_order(self.kernel)


@cache
def branches() -> tuple[Branch, ...]:
    """Return the driver branches, the oldest first."""
    return tuple(
        Branch(int(row["branch"]), row["kernel"], row["until"].removeprefix("-"))
        for row in rows("drivers.tsv")
    )


def suitable(gpus: Sequence[str], kernel: str | None) -> list[Branch]:
    """Return the driver branches that support all of some GPUs, and run on a kernel."""
    return [
        each
        for each in branches()
        if (kernel is None or each.runs_on(kernel))
        and not any(against_gpu(each.number, gpu) for gpu in gpus)
    ]


def best(gpus: Sequence[str], kernel: str | None) -> str:
    """Return the branch of them that is maintained longest, as an inventory has it."""
    found = max(suitable(gpus, kernel), key=lambda each: (each.until, each.number), default=None)
    return str(found.number) if found else "..."


def newer(first: str, state: NodeState, wanted: NodeWanted) -> str:
    """Return the drivers from a version or branch on that a node can have; empty: it can have none.

    In words: 525 or newer, 525 or newer (at most branch 580).
    """
    fit = suitable(models(state, wanted), state.toolchain.kernel)
    fit = [each for each in fit if each.number >= branch(first)]
    if not fit:
        return ""
    return f"{first} or newer" + f" (at most branch {fit[-1].number})" * (fit[-1] != branches()[-1])


def newest_cuda(state: NodeState, wanted: NodeWanted) -> int | None:
    """Return the newest major release of CUDA that a driver for the node runs on all its GPUs."""
    gpus = models(state, wanted)
    newest = max((each.number for each in suitable(gpus, state.toolchain.kernel)), default=0)
    return _newest_cuda(newest, gpus)


def _newest_cuda(number: int, gpus: Sequence[str]) -> int | None:
    runs = [cuda for cuda, first in _floors().items() if first <= number]
    return max((e for e in runs if not any(last_cuda(str(e), gpu) for gpu in gpus)), default=None)


def torch_for(state: NodeState, wanted: NodeWanted, version: str) -> str:
    """Return the command for a torch that the node's driver and all its GPUs run, to append.

    It is that of a version, else the newest; empty where there is none.
    """
    gpus, library = models(state, wanted), state.driver.cuda
    driver = (library.version if library else "") or state.driver.library
    most = _newest_cuda(branch(driver), gpus) if driver else newest_cuda(state, wanted)
    command = pip_torch(gpus, version, state.toolchain.platform, most)
    # Of a version that is there for another CUDA pip says that it is installed.
    return f", in a new environment: {command}" if command else ""


def build_for(cuda: str, state: NodeState, wanted: NodeWanted) -> str:
    """Return the CUDA that a build must be for, where no driver of the node runs one such as 13.0.

    Empty where one does: a newer driver is then another way.
    """
    newest = newest_cuda(state, wanted)
    if newest is None or int(cuda.partition(".")[0]) <= newest:
        return ""
    return f"CUDA {newest} or older"


def model_of(device_id: str) -> str | None:
    """Return the model of a PCI device id such as 0x1db6."""
    return models_by_id().get(device_id.lower())


def models(state: NodeState, wanted: NodeWanted) -> tuple[str, ...]:
    """Return the node's GPU models, each once.

    By nvidia-smi, else by the driver's /proc, else by the PCI bus, which needs no driver, else by
    the inventory.
    """
    smi = state.driver.smi.gpus if state.driver.smi else ()
    by_bus = [model_of(device.id) for device in state.driver.own_devices or ()]
    named = (
        [gpu.name for gpu in smi]
        or list(state.nccl.gpus or ())
        or [each for each in by_bus if each]
    )
    return tuple(dict.fromkeys(named)) or ((wanted.gpu.model,) if wanted.gpu else ())


# Kernels of machines whose GPUs are on no PCI bus: Linux in Windows, and Jetson.
_WITHOUT_BUS = re.compile("microsoft|tegra")


def has_no_gpu(state: NodeState) -> bool:
    """Whether a node surely has no GPU: nothing is unread, and nothing may hide one."""
    smi, kernel = state.driver.smi, state.toolchain.kernel
    is_none_shown = state.driver.own_devices == () and smi is not None and not smi.gpus
    is_whole = is_machine(state) and kernel is not None and not _WITHOUT_BUS.search(kernel)
    return is_none_shown and is_whole


def branch(version: str) -> int:
    """Return a driver version's branch: 535 of 535.154.05."""
    return int(version.partition(".")[0])


def is_version(version: str, wanted: str) -> bool:
    """Whether a version is the one wanted, or of the branch that is wanted."""
    return version == wanted or version.startswith(f"{wanted}.")


def source_of(state: DriverState, version: str) -> Source | None:
    """Return the sources of a version that dkms can build, where they are there."""
    sources = state.dkms.sources if state.dkms else ()
    return next((source for source in sources if source.version == version), None)


def buildable(state: DriverState, version: str) -> Source | None:
    """Return the sources that dkms is to build a version from; None where it is not to.

    It is not where the module has another origin, or where Secure Boot would not load it.
    """
    if not follows_dkms(state) or unsigned(state):
        return None
    return source_of(state, version)


def newest_with_module(state: DriverState, version: str) -> Kernel | None:
    """Return the newest kernel that can boot and would load the module of that version."""
    stale = state.stale_images or {}
    fit = [each for each in bootable(state) if each.image and is_built(each, version)]
    return max(
        (each for each in fit if not stale.get(each.name)),
        key=lambda each: version_order(each.name),
        default=None,
    )


def kernel_to_hold(state: DriverState, wanted: DriverWanted, version: str) -> Kernel | None:
    """Return the kernel that is to boot by default, and no other is built for; None: no hold."""
    return newest_with_module(state, version) if wanted.hold_kernel else None


def builds(state: DriverState, wanted: DriverWanted, version: str) -> bool:
    """Whether the deploy builds the module for kernels that have none."""
    return buildable(state, version) is not None and kernel_to_hold(state, wanted, version) is None


def installed(state: DriverState) -> str | None:
    """Return the version of the driver that is there; None: there is none, or not readable.

    The library of user space decides: any other module fails with it. Where there is none, the
    newest source, else what is loaded.
    """
    return _installed(state, None)


def is_absent(state: DriverState) -> bool:
    """Whether a node has no driver, as far as all that shows one could be read."""
    return None not in (state.library, state.dkms, state.loaded) and installed(state) is None


def target(state: DriverState, wanted: DriverWanted) -> str | None:
    """Return the version that each kernel's module must have.

    None where there is no driver, or one that the inventory does not want: nothing is built for it.
    """
    version = _installed(state, wanted.version)
    return version if version and _is_allowed(version, wanted.version) else None


def _installed(state: DriverState, wanted: str | None) -> str | None:
    if state.library is None or state.dkms is None or state.loaded is None:
        return None
    sources = [
        source.version for source in state.dkms.sources if _is_allowed(source.version, wanted)
    ]
    newest = max(sources, key=numbers, default="")
    return state.library or newest or state.loaded.nvidia or None


def _is_allowed(version: str, wanted: str | None) -> bool:
    return wanted is None or is_version(version, wanted)


def is_built(kernel: Kernel, version: str) -> bool:
    """Whether a kernel would load the module of that version."""
    return kernel.module is not None and kernel.module.version == version


def survives_boot(state: DriverState, version: str) -> bool:
    """Whether what boots next has its module, or can have it before that, and will load it."""
    if bars(state):
        return False
    chosen = next_boot(state).kernel
    kernels = [each for each in bootable(state) if chosen in (None, each.name)]
    if any((state.stale_images or {}).get(kernel.name) for kernel in kernels):
        return False
    has_source = buildable(state, version) is not None
    return bool(kernels) and all(has_source or is_built(kernel, version) for kernel in kernels)


def is_open(module: Module) -> bool:
    """Whether a module is the open one; the proprietary one's license is NVIDIA."""
    return "MIT" in module.license or "GPL" in module.license


def kernel_of(state: DriverState, name: str) -> Kernel | None:
    """Return the kernel of that name, where its modules are installed."""
    installed = state.kernels.installed if state.kernels else ()
    return next((each for each in installed if each.name == name), None)


def running(state: DriverState) -> Kernel | None:
    """Return the kernel that runs, where its modules are still installed."""
    return kernel_of(state, state.kernels.running) if state.kernels else None

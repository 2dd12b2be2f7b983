"""A node as far as it decides what fits: its GPUs, its system, and what it has now."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from gpu_node.drift.driver.rules_gpus import cards, counted
from gpu_node.drift.driver.target import support
from gpu_node.drift.nccl.libnccl import environments, is_unclear
from gpu_node.drift.report.seen import Seen
from gpu_node.drift.tables import is_model, kinds
from gpu_node.facts.driver.state import DriverState
from gpu_node.facts.nccl.discovered import NAME as DISCOVERED
from gpu_node.facts.nccl.state import NcclState, Torch
from gpu_node.facts.node import NodeState

# The beginnings of the names of the sections that have all of it.
SECTIONS = (
    *("driver.loaded", "driver.library", "driver.smi", "driver.pci", "toolchain.os"),
    *("toolchain.kernel", "toolchain.platform", "nccl.environment", "nccl.discovered"),
)
_VERSION = re.compile(r"\d{1,4}(\.\d{1,4}){1,3}")
_KERNEL = re.compile(r"(\d{1,4}\.\d{1,4})(?:\D|$)")


@dataclass(frozen=True)
class Node:
    """What counts of one node; with `unknown`, the reason, the models alone do, if it has any.

    `gpus` has them with their count, `models` each model once, as the inventory says where none is
    found; `kernel` is its first two numbers (3.10), `driver` a version ("": none), `is_open`
    whether the loaded module is the open one; `torches` are those that are built for a CUDA, each
    with the folder of its environment.
    """

    name: str
    gpus: str = ""
    models: tuple[str, ...] = ()
    system: str = ""
    kernel: str = ""
    machine: str = ""
    glibc: str = ""
    driver: str = ""
    is_open: bool | None = None
    torches: tuple[tuple[str, Torch], ...] = ()
    unknown: str = ""

    @property
    def module(self) -> str:
        """The kernel module that its GPUs need: open, proprietary, either, or none for all."""
        needs = {limits.open for each in self.models if (limits := support(each)) is not None}
        if {"no", "only"} <= needs:
            return "none"
        return "proprietary" if "no" in needs else "open" if "only" in needs else "either"


def node_of(name: str, seen: Seen) -> Node:
    """Return a node from its answer; what could not be read of it makes it unknown."""
    state, asked = seen.state, seen.wanted.gpu
    wanted = [asked.model] * asked.count if asked is not None else []
    if state is None:
        models = kinds(wanted) if all(map(support, wanted)) else ()
        return Node(name, _assumed(wanted), models, unknown=f"no answer: {seen.error}")
    driver, platform = state.driver, state.toolchain.platform
    names = cards(driver)
    gpus = counted(names)
    is_read = driver.devices is not None
    if not names and asked is not None and not is_read:
        names, gpus = wanted, _assumed(wanted)
    elif wanted and not _are(names, wanted):
        gpus = f"{gpus or 'none'} (the inventory has {counted(wanted)})"
    match = _KERNEL.match(state.toolchain.kernel or "")
    unknown = next(_gaps(state, names, match is not None), "")
    return Node(
        name=name,
        gpus=gpus,
        models=kinds(names) if not unknown or all(map(support, names)) else (),
        system=state.toolchain.os or "",
        kernel=match[1] if match else "",
        machine=platform.machine if platform else "",
        glibc=(platform.glibc or "") if platform else "",
        driver=_driver(driver) or "",
        is_open=driver.loaded.is_open if driver.loaded and driver.loaded.nvidia else None,
        torches=tuple(_torches(state.nccl)),
        unknown=unknown,
    )


def _assumed(names: list[str]) -> str:
    return f"{counted(names)}, as the inventory says" if names else ""


def _are(names: list[str], wanted: list[str]) -> bool:
    """Whether GPUs are those of the inventory, which may have a part of their name."""
    return len(names) == len(wanted) and all(is_model(name, wanted[0]) for name in names)


def _gaps(state: NodeState, names: list[str], has_kernel: bool) -> Iterator[str]:
    """Yield what of a node is not known, and must be."""
    driver, platform = state.driver, state.toolchain.platform
    if not names:
        is_read = driver.devices is not None
        yield "no NVIDIA GPU on its PCI bus" if is_read else "its GPUs could not be read"
    elif not all(map(support, names)):
        yield f"no table has its GPUs: {counted([each for each in names if not support(each)])}"
    if platform is None:
        yield "its machine and its glibc could not be read"
    elif platform.glibc is None:
        yield "its C library is not glibc: the tables have no wheel for it"
    if not has_kernel:
        yield "its kernel could not be read"
    if _driver(driver) is None:
        yield "its driver could not be read"
    yield from _unread_environments(state)


def _unread_environments(state: NodeState) -> Iterator[str]:
    """Yield which environments could not be read: one by chance counts where none has a torch."""
    nccl = state.nccl
    has_torch = any(_torches(nccl))
    for prefix, environment in nccl.environments.items():
        is_needed = prefix not in nccl.discovered or not has_torch
        if prefix in nccl.old_pythons and is_needed:
            yield f"the environment {prefix} is not read: Python {nccl.old_pythons[prefix]}"
        elif environment is None and prefix not in nccl.absent and is_needed:
            yield f"the environment {prefix} could not be read"
        if environment is not None and is_unclear(environment) and is_needed:
            yield f"which torch {prefix} has depends on who starts a job"
    if any(each.section == DISCOVERED for each in state.unreadable):
        yield "its Python environments could not be looked for"


def _driver(state: DriverState) -> str | None:
    """Return the version of the driver ("": none); None where it is not known."""
    if state.library is None or state.loaded is None:
        return None
    version = state.library or state.loaded.nvidia
    return version if not version or _VERSION.fullmatch(version) else None


def _torches(state: NcclState) -> Iterator[tuple[str, Torch]]:
    for prefix, environment in environments(state):
        if environment.torch and environment.torch.cuda:
            yield prefix, environment.torch

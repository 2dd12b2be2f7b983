"""Toolchain rules about Python packages: the pinned versions, the same on all nodes, for GPUs."""

import re
from collections.abc import Iterator
from dataclasses import replace

from gpu_node.drift.driver.rules_cuda import cuda_init
from gpu_node.drift.driver.rules_driver_packages import not_installed
from gpu_node.drift.driver.rules_gpus import smi_fails
from gpu_node.drift.driver.rules_module import library_mismatch, not_loaded
from gpu_node.drift.driver.target import models
from gpu_node.drift.engine.compare import fault
from gpu_node.drift.engine.nodes import Nodes, Unlike
from gpu_node.drift.engine.rule import At, Fault, check
from gpu_node.drift.engine.subject import Package
from gpu_node.drift.nccl.libnccl import environments, hindrance, is_repairable, locked, pip
from gpu_node.drift.tables import capability
from gpu_node.drift.toolchain.packages import (
    NOT_COMPARED,
    PACKAGE,
    PACKAGES_SHOWN,
    is_of_jobs,
    pins,
    unmet,
)
from gpu_node.facts.nccl.state import Environment
from gpu_node.facts.node import NodeState
from gpu_node.facts.toolchain.state import LINK_DIR as LINK_DIR
from gpu_node.inventories.plurals import counted
from gpu_node.inventories.wanted import NodeWanted


@check("toolchain.package-differs")
def package_differs(at: At) -> Iterator[Fault]:
    yield from _unlike_pins(at.node, at.wanted)
    unlike = [each for each in at.nodes.unlike if each.fact.name.startswith(PACKAGE)]
    of_jobs = [each for each in unlike if is_of_jobs(_package(each))]
    for job in sorted(of_jobs[:PACKAGES_SHOWN], key=lambda each: each.fact.name):
        version = job.majority if job.majority not in (None, "none") else "VERSION"
        pin = f"{_pin(at.node)}{{packages: {{{_package(job)}: {version}}}}}"
        made = fault(job)
        is_apart = isinstance(job.fact.about, Package)
        yield replace(made, fix=made.fix or pin, explains="all" if is_apart else "none")
    uncompared = _not_compared(at.nodes)
    if more := len(unlike) - len(of_jobs[:PACKAGES_SHOWN]) + uncompared:
        listed = "the first ones in `differences`, all in `facts`" if uncompared else _ALL_LISTED
        yield Fault(
            subject=counted(more, "other package"),
            found="other versions than on the other nodes",
            wanted="the same versions on all nodes",
            fix=f"gpu-node drift INVENTORY --format json lists {listed}; "
            f"{_pin(at.node)}{{packages: ...}}, or copy the environment from one node: "
            "nccl: {copy_from: NODE}",
            fixable=False,
            explains="none",
            severity="warning",
        )


_ALL_LISTED = "all of them in `differences`"


def _not_compared(nodes: Nodes) -> int:
    """Return the number of packages that are on this node or its peers, beyond those compared."""
    several = [each for each in nodes.unlike if each.fact.name.partition(":")[0] == NOT_COMPARED]
    return sum(int(each.value or 0) or max(map(int, each.values), default=0) for each in several)


def _package(unlike: Unlike) -> str:
    """Return the package of a fact, which may name an environment as well."""
    about = unlike.fact.about
    return about.package if isinstance(about, Package) else str(about)


def _pin(state: NodeState) -> str:
    """Return how to pin a package: pins apply to the environments that the inventory names."""
    also = "name the environment (nccl.environments) and " if state.nccl.discovered else ""
    return f"{also}pin it in the inventory, and the deploy installs it: toolchain: "


def _unlike_pins(state: NodeState, wanted: NodeWanted) -> Iterator[Fault]:
    pinned = pins(wanted)
    if pinned and not (state.nccl.environments.keys() - {*state.nccl.discovered}):
        yield Fault(
            subject="packages",
            found="no Python environment is named",
            wanted=", ".join(f"{name}=={pin}" for name, pin in pinned.items()),
            cause="pins apply to the environments that the inventory names, and it names none",
            fix="name them: nccl: {environments: [/opt/conda/envs/dis]}",
            fixable=False,
            explains="none",
        )
    for prefix, environment in environments(state.nccl):
        if prefix in state.nccl.discovered:
            continue
        for name, pin in unmet(environment, pinned).items():
            yield Fault(
                subject=Package(name, prefix),
                found=environment.packages.get(name, "not installed"),
                wanted=pin,
                fix=hindrance(environment)
                or f"{pip(prefix, environment, 'install', f'{name}=={pin}')}, with all other "
                f"packages kept at their versions{locked(environment)}",
                fixable=is_repairable(environment),
            )


_GPUS = (not_installed, library_mismatch, not_loaded, smi_fails, cuda_init)


@check("toolchain.bitsandbytes-cpu")
def bitsandbytes_cpu(at: At) -> Iterator[Fault]:
    gpus = models(at.node, at.wanted)
    for prefix, environment in environments(at.node.nccl):
        torch, has = environment.torch, environment.bitsandbytes
        if has is None or torch is None or torch.cuda is None:
            continue
        needs = _library_of(environment, torch.cuda, gpus)
        if needs not in has and not _has_a_near_one(environment, torch.cuda):
            yield Fault(
                subject=Package("bitsandbytes", prefix),
                found=", ".join(name for name in has if "cpu" in name) or "no library",
                wanted=f"{needs}, for CUDA {torch.cuda} of torch {torch.version}",
                fix=f"install a release of it that has {needs}, the same on all nodes",
                explained_by=(),
            )
        elif _sees_no_gpu(at):
            yield Fault(
                subject=Package("bitsandbytes", prefix),
                found="finds no GPU, and loads its library for CPUs",
                wanted=f"{needs}, which it has",
                cause="it reports 'compiled without GPU support' wherever CUDA does not start: the "
                "package itself has the right library",
                fix="repair the driver; a reinstallation of bitsandbytes changes nothing",
                who="administrator",
            )


def _sees_no_gpu(at: At) -> bool:
    """Whether a rule about the driver has a finding that leaves a process without a GPU."""
    return at.wanted.driver is not None and any(True for gpu in _GPUS for _ in gpu(at))


def _has_a_near_one(environment: Environment, cuda: str) -> bool:
    """Whether bitsandbytes, from 0.50 on, takes a library of another release of that CUDA.

    Source: its get_cuda_bnb_library_path, which never goes to another major version.
    """
    release = re.match(r"(\d+)\.(\d+)", environment.packages.get("bitsandbytes", ""))
    if release is None or (int(release[1]), int(release[2])) < (0, 50):
        return False
    major = cuda.partition(".")[0]
    return any(
        re.fullmatch(rf"libbitsandbytes_cuda{re.escape(major)}\d+\.so", each)
        for each in environment.bitsandbytes or ()
    )


def _library_of(environment: Environment, cuda: str, gpus: tuple[str, ...]) -> str:
    """Return the file that bitsandbytes loads; its releases up to 0.45 have one without cublasLt.

    That one is for GPUs before Turing, such as the V100.
    """
    name = f"libbitsandbytes_cuda{cuda.replace('.', '')}"
    old = any("_nocublaslt" in each for each in environment.bitsandbytes or ())
    before_turing = any((capability(gpu) or (9, 9)) < (7, 5) for gpu in gpus)
    return f"{name}_nocublaslt.so" if old and before_turing else f"{name}.so"

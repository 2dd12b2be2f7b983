"""Toolchain rules: the cmake that a build on this node would really use."""

from __future__ import annotations

import re
from collections.abc import Iterator
from shlex import quote

from packaging.version import Version

from gpu_node.drift.driver.rules_cuda import cuda_init
from gpu_node.drift.driver.rules_driver_packages import not_installed
from gpu_node.drift.driver.rules_gpus import library_mismatch, not_loaded, smi_fails
from gpu_node.drift.driver.target import models
from gpu_node.drift.engine.neighbours import Among, Unlike
from gpu_node.drift.engine.rule import Fault, on_node, rule
from gpu_node.drift.engine.subject import Package, PackageWithoutGpu, Path
from gpu_node.drift.engine.unlike import Text, fault
from gpu_node.drift.nccl.libnccl import environments
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
from gpu_node.facts.toolchain.state import Cmake, Cmakes, ToolchainState
from gpu_node.inventories.schema import NodeWanted, ToolchainWanted

# Where a run of the deploy keeps what it moves away.
BACKUPS = "/var/backups/gpu-node/RUN"


def _meets(cmake: Cmake, wanted: str) -> bool:
    return cmake.version is not None and Version(cmake.version) >= Version(wanted)


def _shown(cmake: Cmake) -> str:
    return f"{cmake.version or f'broken ({cmake.output[:60]})'} at {cmake.path}"


def _before_links(cmakes: Cmakes) -> list[Cmake]:
    """Return the cmakes that PATH reaches before LINK_DIR; all of them if it is not in PATH."""
    if LINK_DIR not in cmakes.path:
        return list(cmakes.found)
    ahead = cmakes.path[: cmakes.path.index(LINK_DIR)]
    return [cmake for cmake in cmakes.found if cmake.path.rpartition("/")[0] in ahead]


def _is_met(found: ToolchainState, wanted: ToolchainWanted) -> bool:
    """Whether there is nothing to say about cmake: not managed, not readable, or right."""
    if wanted.cmake is None or found.cmake is None:
        return True
    return bool(found.cmake.found) and _meets(found.cmake.found[0], wanted.cmake.version)


def moved_away(cmakes: Cmakes, version: str) -> str:
    """Return what the deploy moves to its backups for the links of a release; empty for nothing."""
    paths = ", ".join(cmakes.taken)
    moved = f"{paths}: moved to {BACKUPS} first" if paths else ""
    prefix = f"/opt/cmake-{version}"
    broken = f"{prefix}: moved to {BACKUPS} if its cmake does not run"
    return "; ".join(filter(None, (moved, broken if prefix in cmakes.releases else "")))


def _linking(cmakes: Cmakes, version: str, text: str) -> str:
    moved = moved_away(cmakes, version)
    return f"{text}; {moved}" if moved else text


@rule(
    "toolchain.cmake-old",
    "error",
    step="toolchain",
    key="toolchain.cmake",
    why="Builds of CUDA extensions end with 'CMake 3.25 or higher is required'.",
    manual="Unpack a newer release into /opt, and link its programs in /usr/local/bin.",
    repair="Unpacks the release into /opt, and links its programs in /usr/local/bin.",
    alone="Install it in the environment that builds: pip install cmake==VERSION.",
)
def cmake_old(found: ToolchainState, wanted: ToolchainWanted) -> Iterator[Fault]:
    """No cmake in PATH is new enough."""
    if _is_met(found, wanted) or wanted.cmake is None or found.cmake is None:
        return
    if any(_meets(cmake, wanted.cmake.version) for cmake in found.cmake.found):
        return  # there is one, behind another: that is toolchain.cmake-shadowed
    release = f"/opt/cmake-{wanted.cmake.version}"
    reached = LINK_DIR in found.cmake.path
    yield Fault(
        subject="cmake",
        found=_shown(found.cmake.found[0]) if found.cmake.found else "none in PATH",
        wanted=f"{wanted.cmake.version} or newer",
        cause="builds of CUDA extensions stop with 'CMake 3.25 or higher is required'; unpacking a "
        "release over /usr/local would mix two releases, and cannot be undone",
        fix=_linking(
            found.cmake,
            wanted.cmake.version,
            f"unpack the release into {release} and link its programs in {LINK_DIR}",
        )
        if reached
        else f"put {LINK_DIR} into the PATH of non-interactive shells",
        fixable=reached,
    )


@rule(
    "toolchain.cmake-shadowed",
    "error",
    step="toolchain",
    key="toolchain.cmake",
    why="Builds use the first cmake in PATH.",
    manual="Remove that cmake, or put /usr/local/bin before it in PATH.",
    repair="Links the programs of the wanted release in /usr/local/bin.",
)
def cmake_shadowed(found: ToolchainState, wanted: ToolchainWanted) -> Iterator[Fault]:
    """A cmake that is too old or broken stands in PATH before the right one."""
    if _is_met(found, wanted) or wanted.cmake is None or found.cmake is None:
        return
    version = wanted.cmake.version
    right = [cmake for cmake in found.cmake.found if _meets(cmake, version)]
    ahead = [cmake for cmake in _before_links(found.cmake) if not _meets(cmake, version)]
    if not right and not ahead:
        return
    shadow = ahead[0] if ahead else found.cmake.found[0]
    yield Fault(
        subject=Path(shadow.path),
        found=_shown(shadow),
        wanted=_shown(right[0]) if right else f"{version} or newer in {LINK_DIR}",
        cause=f"PATH of a non-interactive shell reaches {shadow.path} first: builds use that one",
        fix=f"remove {shadow.path} (conda remove cmake, pip uninstall cmake), or put {LINK_DIR} "
        "before it in PATH"
        if ahead
        else _linking(found.cmake, version, f"link the programs of {version} in {LINK_DIR}"),
        fixable=not ahead,
    )


@rule(
    "toolchain.package-differs",
    ("error", "warning"),
    compares=True,
    step="toolchain",
    always=True,
    why="The job fails on this node alone, or computes other results there.",
    manual="Run pip install NAME==VERSION in the environment. Or pin the version in the inventory "
    "(toolchain: {packages: {NAME: VERSION}}), and run the deploy.",
    repair="Installs the pinned versions with pip. A package that is not pinned keeps its version.",
    alone="Install one version in an environment of yours: pip install NAME==VERSION.",
)
def package_differs(found: NodeState, wanted: NodeWanted, among: Among) -> Iterator[Fault]:
    """A Python package has another version than its pin in the inventory or than on other nodes."""
    yield from _unlike_pins(found, wanted)
    unlike = [each for each in among.unlike if each.fact.startswith(PACKAGE)]
    of_jobs = [each for each in unlike if is_of_jobs(_package(each))]
    for each in sorted(of_jobs[:PACKAGES_SHOWN], key=lambda each: each.fact):
        version = each.majority if each.majority not in (None, "none") else "VERSION"
        pin = f"{_pin(found)}{{packages: {{{_package(each)}: {version}}}}}"
        yield fault(each, each.fact.removeprefix(PACKAGE), Text(_PACKAGE_HARM, pin, "warning"))
    uncompared = _not_compared(among)
    if more := len(unlike) - len(of_jobs[:PACKAGES_SHOWN]) + uncompared:
        listed = "the first ones in `differences`, all in `facts`" if uncompared else _ALL_LISTED
        yield Fault(
            subject=f"{more} other package{'s' * (more > 1)}",
            found="other versions than on the other nodes",
            wanted="the same versions on all nodes",
            cause=_PACKAGE_HARM,
            fix=f"gpu-node drift INVENTORY --format json lists {listed}; "
            f"{_pin(found)}{{packages: ...}}, or copy the environment from one node: "
            "nccl: {copy_from: NODE}",
            fixable=False,
            severity="warning",
        )


_ALL_LISTED = "all of them in `differences`"
_PACKAGE_HARM = (
    "a node with another version fails alone, or computes other results: data that one version "
    "saved may not be readable by another"
)


def _not_compared(among: Among) -> int:
    """Return the number of packages that are on this node or its peers, beyond those compared."""
    several = [each for each in among.unlike if each.fact.partition(":")[0] == NOT_COMPARED]
    return sum(int(each.value or 0) or max(map(int, each.values), default=0) for each in several)


def _package(unlike: Unlike) -> str:
    """Return the package of a fact, which may name an environment as well."""
    return unlike.fact.removeprefix(PACKAGE).partition(" in ")[0]


def _pin(found: NodeState) -> str:
    """Return how to pin a package: pins apply to the environments that the inventory names."""
    also = "name the environment (nccl.environments) and " if found.nccl.discovered else ""
    return f"{also}pin it in the inventory, and the deploy installs it: toolchain: "


def _unlike_pins(found: NodeState, wanted: NodeWanted) -> Iterator[Fault]:
    pinned = pins(wanted)
    if pinned and not (found.nccl.environments.keys() - {*found.nccl.discovered}):
        yield Fault(
            subject="packages",
            found="no Python environment is named",
            wanted=", ".join(f"{name}=={pin}" for name, pin in pinned.items()),
            cause="pins apply to the environments that the inventory names, and it names none",
            fix="name them: nccl: {environments: [/opt/conda/envs/dis]}",
            fixable=False,
        )
    for prefix, environment in environments(found.nccl):
        if prefix in found.nccl.discovered:
            continue
        for name, pin in unmet(environment, pinned).items():
            yield Fault(
                subject=Package(name, prefix),
                found=environment.packages.get(name, "not installed"),
                wanted=pin,
                cause=_PACKAGE_HARM,
                fix=f"{quote(prefix)}/bin/python -m pip install {name}=={pin}, with all other "
                "packages kept at their versions",
            )


_GPUS = (not_installed, library_mismatch, not_loaded, smi_fails, cuda_init)


@rule(
    "toolchain.bitsandbytes-cpu",
    "error",
    whole=True,
    always=True,
    because_of=tuple(on_node(each, of=(PackageWithoutGpu,)) for each in _GPUS),
    why="8-bit optimizers and quantization fail: 'compiled without GPU support'.",
    manual="Repair the driver first if the node's GPUs do not answer: nothing is wrong with the "
    "package then. Else install a release of bitsandbytes with a library for the CUDA of torch.",
)
def bitsandbytes_cpu(found: NodeState, wanted: NodeWanted) -> Iterator[Fault]:
    """bitsandbytes has no library for the CUDA of torch, or loads that for CPUs without a GPU."""
    gpus = models(found, wanted)
    for prefix, environment in environments(found.nccl):
        torch, has = environment.torch, environment.bitsandbytes
        if has is None or torch is None or torch.cuda is None:
            continue
        needs = _library_of(environment, torch.cuda, gpus)
        if needs not in has and not _has_a_near_one(environment, torch.cuda):
            yield Fault(
                subject=Package("bitsandbytes", prefix),
                found=", ".join(name for name in has if "cpu" in name) or "no library",
                wanted=f"{needs}, for CUDA {torch.cuda} of torch {torch.version}",
                cause="it fails with 'compiled without GPU support', only on "
                "this node: 8-bit optimizers and quantization do not work",
                fix=f"install a release of it that has {needs}, the same on all nodes",
                fixable=False,
            )
        elif _sees_no_gpu(found, wanted):
            yield Fault(
                subject=PackageWithoutGpu("bitsandbytes", prefix),
                found="finds no GPU, and loads its library for CPUs",
                wanted=f"{needs}, which it has",
                cause="it reports 'compiled without GPU support' wherever CUDA does not start: the "
                "package itself has the right library",
                fix="repair the driver; a reinstallation of bitsandbytes changes nothing",
                fixable=False,
            )


def _sees_no_gpu(found: NodeState, wanted: NodeWanted) -> bool:
    """Whether a rule about the driver has a finding that leaves a process without a GPU."""
    return any(
        True
        for each in _GPUS
        if wanted.driver is not None
        for _ in (each(found, wanted) if each.whole else each(found.driver, wanted.driver))
    )


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

"""Toolchain rules about compiled code: for another GPU or CPU, or where no job can load it."""

import posixpath
from collections.abc import Iterable, Iterator
from shlex import quote

from gpu_node.drift.driver.target import models
from gpu_node.drift.engine.nodes import Nodes
from gpu_node.drift.engine.rule import At, Fault, check
from gpu_node.drift.engine.subject import Package, Path
from gpu_node.drift.env.bashrc import is_network_home
from gpu_node.drift.host.machine import trains
from gpu_node.drift.nccl.libnccl import environments, pip
from gpu_node.drift.toolchain.operators import (
    built_for,
    by_folder,
    capabilities,
    copied,
    is_foreign,
    is_of_other_cpu,
    lacking,
    named,
    of_cpu,
    of_other_gpus,
    shown,
)
from gpu_node.facts.nccl.state import Environment, Operator
from gpu_node.facts.node import NodeState
from gpu_node.facts.toolchain.build import Build, Built

_NO_KERNEL = "'no kernel image is available for execution on the device'"


@check("toolchain.ops-foreign")
def ops_foreign(at: At) -> Iterator[Fault]:
    gpus = capabilities(models(at.node, at.wanted))
    for prefix, environment in environments(at.node.nccl):
        if environment.deepspeed is None:
            continue
        yield from _other_gpu(prefix, environment, gpus, at.nodes)
        yield from _unknown_gpu(prefix, environment)
        yield from _other_cpu(prefix, environment, at.node, at.nodes, gpus)
    if at.node.toolchain.build is not None:
        yield from _built_elsewhere(at.node, at.node.toolchain.build, gpus)


def _other_gpu(
    prefix: str, environment: Environment, gpus: list[tuple[int, int]], nodes: Nodes
) -> Iterator[Fault]:
    foreign = of_other_gpus(environment, gpus)
    if foreign:
        needs = ", ".join(f"sm_{major}{minor}" for major, minor in gpus)
        yield Fault(
            subject=Package("deepspeed", prefix),
            found=f"{named(foreign)}: {built_for(foreign)}",
            wanted=f"kernels for {needs}",
            cause=f"operators that were compiled for other GPUs end with {_NO_KERNEL}",
            fix=install_again(prefix, environment, _all_gpus(gpus, nodes)),
        )


def _all_gpus(gpus: list[tuple[int, int]], nodes: Nodes) -> list[tuple[int, int]]:
    """Return the compute capabilities of all nodes that were asked."""
    return sorted({*gpus, *capabilities(nodes.once(_gpu_names))})


def _gpu_names(nodes: Nodes) -> list[str]:
    smi = [state.driver.smi for state in nodes.states.values()]
    return list(dict.fromkeys(gpu.name for each in smi if each for gpu in each.gpus))


def install_again(prefix: str, environment: Environment, gpus: list[tuple[int, int]]) -> str:
    """Return the command that compiles DeepSpeed's operators for these GPUs and this CPU."""
    known = environment.deepspeed
    flags = " ".join(
        f"DS_BUILD_{name.upper()}=1"
        for name in named(known.operators if known else ()).split(", ")
        if name
    )
    listed = ";".join(f"{major}.{minor}" for major, minor in gpus)
    words = ("--force-reinstall", "--no-deps", "--no-cache-dir", "--no-build-isolation")
    wheel = f"deepspeed=={environment.packages.get('deepspeed', 'VERSION')}"
    command = pip(prefix, environment, "install", *words, wheel)
    return f"TORCH_CUDA_ARCH_LIST='{listed}' {flags} {command}"


def brought(
    prefix: str,
    theirs: Environment,
    state: NodeState,
    source: NodeState,
    gpus: Iterable[str],
    nodes: Nodes,
) -> str:
    """Return what a copy of an environment brings that does not run here, and the command for it.

    Empty for nothing. `theirs` is the environment on its `source`, `gpus` are the node's models.
    """
    names = list(gpus)
    here, there = (
        node.toolchain.build.flags if node.toolchain.build else () for node in (state, source)
    )
    operators = copied(theirs, names, here, there)
    if not operators:
        return ""
    command = install_again(prefix, theirs, _all_gpus(capabilities(names), nodes))
    return (
        f"{prefix}: the copy has DeepSpeed's operators as its source compiled them: {operators}; "
        f"they do not run here until this node compiles them (toolchain.ops-foreign): {command}"
    )


def _unknown_gpu(prefix: str, environment: Environment) -> Iterator[Fault]:
    known = environment.deepspeed
    unknown = [each for each in (known.operators if known else ()) if each.architectures is None]
    if unknown:
        yield Fault(
            subject=Package("operators", prefix),
            found=named(unknown),
            wanted="operators with a list of their kernels",
            cause="the format of these libraries is not known: cannot determine which GPUs they "
            "were compiled for",
            fix="cuobjdump --list-elf LIBRARY, with the CUDA toolkit, lists them",
            severity="info",
        )


def _other_cpu(
    prefix: str,
    environment: Environment,
    state: NodeState,
    nodes: Nodes,
    gpus: list[tuple[int, int]],
) -> Iterator[Fault]:
    """Yield operators that are the same file as on a node whose CPU has more."""
    flags = state.toolchain.build.flags if state.toolchain.build else ()
    mine = of_cpu(environment)
    for name, node in nodes.states.items() if flags and mine else ():
        peer = node.nccl.environments.get(prefix)
        build = node.toolchain.build
        if name == nodes.name or peer is None or build is None:
            continue
        same = [each for each in mine if _is_among(each, of_cpu(peer))]
        parts = lacking(flags, build.flags)
        if same and parts:
            yield Fault(
                subject=Package("CPU operators of deepspeed", prefix),
                found=f"{named(same)}: the same file as on {name}, whose CPU has {shown(parts)}",
                wanted="operators that were compiled on a CPU of this type",
                cause="they are compiled for the CPU of the machine that compiles (-march=native); "
                "cannot determine which one that was: if it was not this type, the job ends "
                "with 'Illegal instruction'",
                fix=install_again(prefix, environment, _all_gpus(gpus, nodes)),
                severity="warning",
            )
            return


def _is_among(operator: Operator, others: list[Operator]) -> bool:
    """Whether another node has the same file: a copy keeps its time."""
    return any(
        (other.name, other.size, other.time) == (operator.name, operator.size, operator.time)
        for other in others
    )


def _built_elsewhere(
    state: NodeState, build: Build, gpus: list[tuple[int, int]]
) -> Iterator[Fault]:
    shared = is_network_home(state.env)
    for folder, built in by_folder(build.built).items():
        foreign = [each for each in built if is_foreign(each.architectures, gpus)]
        cpu = [each for each in built if is_of_other_cpu(each, build.flags)]
        if not foreign and not cpu:
            continue
        has = [f"{_names(foreign)}: {built_for(foreign)}"] if foreign else []
        has += [f"{_names(cpu)}: {cpu[0].vectors}"] if cpu else []
        yield Fault(
            subject=Path(folder),
            found="; ".join(has),
            wanted="builds for the GPUs and the CPU of this node",
            cause=_rebuilt(build, shared),
            fix=_own_folder(folder) if shared else f"rm -r {_paths([*foreign, *cpu])}",
            severity="error" if build.nvcc is None else "warning",
        )


def _rebuilt(build: Build, shared: bool) -> str:
    if build.nvcc is None:
        return f"torch has built them for another machine, and there is no nvcc here: {_NO_KERNEL}"
    if shared:
        return (
            "nodes with different GPUs share this home: each start builds them again, and a rank "
            f"may load what the other node has just built: {_NO_KERNEL} or 'Illegal instruction'"
        )
    return (
        "torch has built them for another machine: the next start builds them again, which takes "
        "minutes, and the other nodes wait until their time limit"
    )


def _own_folder(folder: str) -> str:
    return (
        "give each node a folder of a local disk that only the training user can write, in the "
        f"inventory: env: {{TORCH_EXTENSIONS_DIR: FOLDER}}, then remove {folder}"
    )


def _names(built: list[Built]) -> str:
    return ", ".join(posixpath.basename(each.folder) for each in built)


def _paths(built: list[Built]) -> str:
    return " ".join(dict.fromkeys(quote(each.folder) for each in built))


_LOADS = {
    "TORCHINDUCTOR_CACHE_DIR": "torch.compile loads its kernels",
    "TRITON_CACHE_DIR": "Triton loads its launchers",
    "TORCH_EXTENSIONS_DIR": "torch and DeepSpeed load the operators that they have compiled",
}


@check("toolchain.noexec")
def noexec(at: At) -> Iterator[Fault]:
    build = at.node.toolchain.build
    for each in (build.noexec if build and trains(at.node, at.wanted) else None) or ():
        yield Fault(
            subject=Path(each.folder),
            found=f"{each.mount} is mounted with noexec",
            wanted="a mount without noexec",
            also=f"{_LOADS[each.variable]} from there",
            fix=f"mount -o remount,exec {quote(each.mount)}, and remove noexec from its line in "
            f"/etc/fstab, or from its unit; or set {each.variable} to a folder on another file "
            "system",
        )

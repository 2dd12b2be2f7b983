"""Toolchain rules about builds: toolkit, compiler, ninja and pdsh of a launcher's shell."""

import posixpath
from collections.abc import Iterator
from dataclasses import replace
from shlex import quote

from gpu_node.drift.driver.target import last_cuda, models
from gpu_node.drift.engine.finding import Severity
from gpu_node.drift.engine.rule import At, Fault, check
from gpu_node.drift.engine.subject import Gpu, Package, Prefix
from gpu_node.drift.job.names import DEEPSPEED
from gpu_node.drift.job.rules import job_in
from gpu_node.drift.nccl.libnccl import is_repairable, locked, pip
from gpu_node.drift.tables import toolkits
from gpu_node.drift.toolchain.build import (
    Range,
    accepted,
    deepspeed_refuses,
    is_gcc,
    is_in_path,
    newer_toolset,
    of_torch,
    other_compiler,
    too_new,
    too_old,
    toolkit_there,
    torch_refuses,
)
from gpu_node.drift.toolchain.operators import named
from gpu_node.facts.nccl.state import Environment
from gpu_node.facts.node import NodeState
from gpu_node.facts.toolchain.build import Build, Program
from gpu_node.inventories.fields.kinds import FAMILIES
from gpu_node.inventories.versions import numbers
from gpu_node.inventories.wanted import NodeWanted

_JIT = "DeepSpeed compiles an operator at its first use"
# The newest that Red Hat's collections for CentOS 7 have.
_NEWEST_DEVTOOLSET = 11
_SCL = "baseurl=http://vault.centos.org/centos/7/sclo/$basearch/rh/"
# The last toolkit in NVIDIA's repository for CentOS 7: release notes of CUDA 12.5.
_LAST_FOR_YUM = "12.4"


def _are_deepspeeds(at: At) -> bool:
    """Whether DeepSpeed is known to run the jobs: installed alone it compiles nothing."""
    if at.wanted.jobs is not None and at.wanted.jobs.zero is not None:
        return True
    if at.nodes.task is not None:
        job = job_in(at.nodes)
        return job.given.is_deepspeed or bool(job.config_name)
    return at.wanted.launcher is not None and at.wanted.launcher.kind == DEEPSPEED


def _severity(environment: Environment) -> Severity:
    """Return the severity of what stops builds: DeepSpeed builds in a job, others beforehand."""
    return "error" if environment.deepspeed is not None else "warning"


@check("toolchain.cuda-mismatch")
def cuda_mismatch(at: At) -> Iterator[Fault]:
    build, stops = at.node.toolchain.build, _are_deepspeeds(at)
    if build is None:
        return
    if build.nvcc and build.nvcc.version:
        yield from _beyond_gpus(at.node, at.wanted, build, build.nvcc.version)
    for prefix, environment, _, cuda in of_torch(at.node):
        deepspeed, nvcc = environment.deepspeed, build.nvcc
        if nvcc is None:
            if deepspeed is not None:
                yield _without_nvcc(prefix, environment, build, cuda)
        elif nvcc.version is None:
            yield Fault(
                subject=Prefix(prefix),
                found=f"{nvcc.path} shows no release: {nvcc.output[:100] or 'no output'}",
                wanted=f"nvcc of CUDA {cuda}",
                cause="nothing that needs nvcc can be compiled",
                fix=f"repair {nvcc.path}, or set CUDA_HOME to another toolkit",
                severity=_severity(environment),
                stops=stops,
            )
        elif deepspeed is not None and deepspeed_refuses(nvcc.version, cuda, deepspeed):
            yield Fault(
                subject=Prefix(prefix),
                found=f"CUDA {nvcc.version} ({nvcc.path})",
                wanted=f"CUDA {cuda}, which torch was compiled with",
                also="DS_SKIP_CUDA_CHECK=1 hides it" if build.skips else "",
                names={"NVCC": nvcc.version, "TORCH": cuda},
                fix=_toolkit_fix(at.node, build, cuda),
                severity="warning" if build.skips else "error",
                stops=stops,
            )
        elif deepspeed is None and torch_refuses(nvcc.version, cuda):
            yield Fault(
                subject=Prefix(prefix),
                found=f"CUDA {nvcc.version} ({nvcc.path})",
                wanted=f"CUDA {cuda.split('.')[0]}, as torch has {cuda}",
                cause="torch refuses to build CUDA extensions, such as flash-attn: 'The detected "
                f"CUDA version ({nvcc.version}) mismatches the version that was used to compile "
                f"PyTorch ({cuda})'",
                fix=_toolkit_fix(at.node, build, cuda),
                severity="warning",
            )


def _beyond_gpus(
    state: NodeState, wanted: NodeWanted, build: Build, toolkit: str
) -> Iterator[Fault]:
    """Yield a fault for each GPU that the toolkit does not compile for, where no torch fits it."""
    for gpu in models(state, wanted):
        last = last_cuda(toolkit, gpu)
        # The toolkit of a torch that fits the GPU is asked for with that torch.
        if last is None or any(not last_cuda(cuda, gpu) for *_, cuda in of_torch(state)):
            continue
        newest = [each for each in toolkits() if each.startswith(f"{last}.")][-1]
        if state.nccl.manager == "yum":
            newest = min(newest, _LAST_FOR_YUM, key=numbers)
        yield Fault(
            subject=Gpu(gpu),
            found=f"CUDA {toolkit}",
            wanted=f"CUDA {last} or older, for this GPU",
            cause="builds of CUDA extensions end with 'nvcc fatal: Unsupported gpu architecture', "
            "or leave this GPU out: 'no kernel image is available for execution on the device'",
            fix=_toolkit_fix(state, build, newest),
            severity="warning",
        )


def _without_nvcc(prefix: str, environment: Environment, build: Build, cuda: str) -> Fault:
    compiled = named(environment.deepspeed.operators) if environment.deepspeed else ""
    return Fault(
        subject=Prefix(prefix),
        found=f"no nvcc in {build.cuda}/bin" if build.cuda else "no nvcc",
        wanted=f"a CUDA {cuda} toolkit, if jobs use operators that are not compiled yet",
        cause=f"{_JIT}, which fails without nvcc; of those compiled at its installation it has: "
        f"{compiled or 'none'}",
        fix="nothing to do where jobs use no others; otherwise install the toolkit, or compile "
        "the operators where DeepSpeed is installed: DS_BUILD_FUSED_ADAM=1 DS_BUILD_CPU_ADAM=1",
        severity="info",
    )


def _toolkit_fix(state: NodeState, build: Build, cuda: str) -> str:
    """Return the command that installs torch's toolkit, and how a launcher's shell gets it."""
    there = toolkit_there(build, [cuda])
    folder = there or f"/usr/local/cuda-{cuda}"
    shell = f"set it for jobs, in the inventory: env: {{CUDA_HOME: {folder}}}"
    if there:
        return f"{there} is installed: {shell}"
    manager = state.nccl.manager
    if manager not in FAMILIES:
        return f"install the CUDA {cuda} toolkit beside it in {folder}, and {shell}"
    return (
        f"from NVIDIA's CUDA repository: {manager} install cuda-toolkit-{cuda.replace('.', '-')}, "
        f"which installs no driver, and {shell} (where it has none for this system: "
        f"{_by_conda(cuda)}, and CUDA_HOME is that environment)"
    )


def _by_conda(cuda: str) -> str:
    """Return the command that installs a toolkit in an environment, its nvcc of the same release.

    Without these pins conda takes the newest nvcc of the channel (CondaPkg.jl #102).
    """
    if numbers(cuda) < (12,):
        return f"conda install -c nvidia/label/cuda-{cuda}.0 cuda-toolkit cuda-nvcc={cuda}"
    return f"conda install -c conda-forge cuda-toolkit cuda-version={cuda}"


@check("toolchain.compiler")
def compiler(at: At) -> Iterator[Fault]:
    build = at.node.toolchain.build
    if build is None or build.nvcc is None or build.nvcc.version is None:
        return
    for prefix, environment, torch, _ in of_torch(at.node):
        right = accepted(torch, build, build.nvcc)
        problem = _compiler_problem(build, right, build.nvcc)
        if problem is not None:
            has, cause = problem
            yield Fault(
                subject=Prefix(prefix),
                found=has,
                wanted=f"{right.text()}, for CUDA {build.nvcc.version} and torch {torch.version}",
                cause=cause,
                fix=_compiler_fix(at.node, build, right),
                who="user" if newer_toolset(build, right) else None,
                severity=_severity(environment),
                stops=_are_deepspeeds(at),
            )


def _compiler_problem(build: Build, right: Range, nvcc: Program) -> tuple[str, str] | None:
    """Return what is found and why that fails; None if it is right or its bounds are unknown."""
    if build.cxx is None:
        return "no C++ compiler in PATH", "nothing can be compiled"
    for each in (build.cxx, build.host):
        if each is None or not is_gcc(each):
            continue
        if each.version is None:
            has = f"{each.path} shows no version: {each.output[:100] or 'no output'}"
            return has, "nothing can be compiled with it"
        has = f"GCC {each.version} ({each.path})"
        if too_old(each.version, right):
            return has, (
                "builds end with 'less than the minimum required version by CUDA "
                f"{nvcc.version}', or with 'We need GCC 9 or later'"
            )
        if too_new(each.version, right):
            return has, (
                "builds end with 'greater than the maximum required version by CUDA "
                f"{nvcc.version}', or with 'unsupported GNU version!'"
            )
    return None


def _compiler_fix(state: NodeState, build: Build, right: Range) -> str:
    """Return the command for the node's system, or what is installed and only not enabled."""
    where = "at the top of ~/.bashrc of the training user, before a line that returns"
    if toolset := newer_toolset(build, right):
        return f"{posixpath.basename(toolset)} is installed: write `. {toolset}/enable` {where}"
    if number := other_compiler(build, right):
        return f"g++-{number} is installed: {_set_compiler(number)}"
    manager, newest = state.nccl.manager, right.newest or _NEWEST_DEVTOOLSET
    if manager == "apt-get":
        return f"apt-get install g++-{newest}, and {_set_compiler(str(newest))}"
    if manager == "dnf":
        name = f"gcc-toolset-{newest}"
        return f"dnf install {name}-gcc-c++, and write `. /opt/rh/{name}/enable` {where}"
    if manager == "yum":
        name = f"devtoolset-{min(newest, _NEWEST_DEVTOOLSET)}"
        return (
            "yum install centos-release-scl-rh; CentOS 7 has ended: in CentOS-SCLo-scl-rh.repo of "
            f"/etc/yum.repos.d comment out mirrorlist and set {_SCL}; yum install {name}-gcc-c++, "
            f"and write `. /opt/rh/{name}/enable` {where}"
        )
    return f"install {right.text()}, and put it first in PATH"


def _set_compiler(number: str) -> str:
    return f"set it for jobs, in the inventory: env: {{CC: gcc-{number}, CXX: g++-{number}}}"


@check("toolchain.ninja")
def ninja(at: At) -> Iterator[Fault]:
    build = at.node.toolchain.build
    if build is None or build.nvcc is None:
        return
    for prefix, environment, _, _ in of_torch(at.node):
        if environment.deepspeed is None:
            continue
        if "ninja" not in environment.packages:
            missing = _no_package(at.node, at.wanted, prefix, environment, build)
            yield replace(missing, stops=_are_deepspeeds(at))
        elif build.ninja is None or build.ninja.kind != "ninja":
            yield Fault(
                subject=Package("ninja", prefix),
                found=_no_program(build),
                wanted=f"{prefix}/bin/ninja, first in PATH",
                also="torch starts the ninja in the PATH of a launcher's shell, which is not that "
                "of an activated environment",
                fix=_path_fix(prefix),
                fixable=False,
                stops=_are_deepspeeds(at),
            )


def _no_program(build: Build) -> str:
    if build.ninja is None:
        return "no ninja in the PATH of a launcher's shell"
    if build.ninja.kind == "broken":
        return f"{build.ninja.path} cannot run: its Python is missing"
    return f"{build.ninja.path} is another program"


def _path_fix(prefix: str) -> str:
    return (
        f"write `export PATH={quote(prefix)}/bin:$PATH` at the top of ~/.bashrc of the training "
        "user, before a line that returns"
    )


def _no_package(
    state: NodeState, wanted: NodeWanted, prefix: str, environment: Environment, build: Build
) -> Fault:
    is_named = wanted.nccl is not None and prefix in (wanted.nccl.environments or ())
    in_path = build.ninja is not None and build.ninja.kind == "ninja"
    reached = in_path or (build.ninja is None and is_in_path(build, f"{prefix}/bin"))
    fix = f"{pip(prefix, environment, 'install', 'ninja')}{locked(environment)}"
    key_helps = not is_named and environment.pip is not None
    key = f"name the environment, and the deploy installs it: nccl: {{environments: [{prefix}]}}"
    if environment.external and not key_helps:
        fix = "the distribution manages this Python: use an environment for training"
    elif not reached and not key_helps:
        fix += f", and {_path_fix(prefix)}"
    return Fault(
        subject=Package("ninja", prefix),
        found="not installed",
        wanted="the package ninja, and its program in PATH",
        cause=f"{_JIT}, and ends with 'Unable to JIT load the op due to ninja not being installed'",
        fix=fix,
        deploy=key if key_helps else "",
        fixable=is_named and reached and is_repairable(environment),
    )


@check("toolchain.pdsh")
def pdsh(at: At) -> Iterator[Fault]:
    build, launches = at.node.toolchain.build, at.wanted.launcher
    if build is None or launches is None or launches.kind != DEEPSPEED or build.pdsh:
        return
    if not at.nodes.others or at.nodes.peers[0].name != at.nodes.name:
        return
    yield Fault(
        subject="pdsh",
        found="none in the PATH of a launcher's shell",
        wanted="pdsh with its ssh module",
        fixable=at.node.nccl.manager in FAMILIES,
    )

"""NCCL rule about CUDA: the driver runs what torch and its libnccl were built for."""

from collections.abc import Iterator
from functools import cache

from gpu_node.drift.driver.target import (
    branch,
    build_for,
    floor,
    last_cuda,
    models,
    newer,
    torch_for,
)
from gpu_node.drift.engine.rule import At, Fault, check
from gpu_node.drift.engine.subject import Prefix
from gpu_node.drift.nccl.libnccl import environments
from gpu_node.drift.tables import capability, rows, runs_on, toolkits
from gpu_node.facts.nccl.state import Environment, plain, shown
from gpu_node.facts.node import NodeState
from gpu_node.inventories.versions import numbers
from gpu_node.inventories.wanted import NodeWanted


@cache
def _floors() -> dict[str, str]:
    return {row["cuda"]: row["version"] for row in rows("cuda_floors.tsv")}


def oldest_driver(cuda: str) -> str | None:
    """Return the oldest driver that runs programs of a CUDA such as 12.1; None: in no table.

    Any driver since the floor of the major release does; the one of the toolkit itself, too.
    """
    known = [_floors().get(cuda.partition(".")[0]), toolkits().get(cuda)]
    return min((each for each in known if each), key=numbers, default=None)


def _is_older(driver: str, than: str) -> bool:
    return numbers(driver) < numbers(than)


@check("nccl.cuda-driver")
def cuda_driver(at: At) -> Iterator[Fault]:
    library = at.node.driver.cuda
    # libcuda decides: NVIDIA's cuda-compat brings one of a newer driver.
    driver = (library.version if library else "") or at.node.driver.library
    gpus = models(at.node, at.wanted)
    for prefix, environment in environments(at.node.nccl):
        if driver:
            yield from _too_new(prefix, environment, driver, at.node, at.wanted)
            yield from _only_ptx(prefix, environment, driver, at.node, at.wanted)
        yield from _without_kernels(at, prefix, environment, gpus)


def _too_new(
    prefix: str, environment: Environment, driver: str, state: NodeState, wanted: NodeWanted
) -> Iterator[Fault]:
    """Yield a fault for what minor version compatibility does not cover."""
    for name, cuda in _builds(environment).items():
        oldest, first = oldest_driver(cuda), floor(cuda)
        if oldest is None or not _is_older(driver, oldest):
            continue
        if name.startswith("torch") and first is not None and branch(driver) < first:
            continue  # driver.too-old reports it
        way, other = newer(oldest, state, wanted), build_for(cuda, state, wanted)
        ways = [f"driver {way}"] * bool(way and not other)
        yield Fault(
            subject=Prefix(prefix),
            found=f"{name} for CUDA {cuda}, with driver {driver}",
            wanted="".join(ways) or f"a build for {other or 'an older CUDA'}",
            cause="it fails with 'CUDA driver version is insufficient for CUDA runtime version': a "
            f"driver runs other minor releases of CUDA {cuda.partition('.')[0]} only from "
            f"{oldest} on",
            fix="install "
            + ", or ".join([*ways, f"a build for {other or 'an older CUDA'}"])
            + _torch_for(state, wanted, environment) * bool(other),
        )


def _builds(environment: Environment) -> dict[str, str]:
    """Return the CUDA of torch, and of the libnccl that it loads."""
    torch, library = environment.torch, environment.loaded
    builds = {}
    if torch is not None and torch.cuda:
        builds[f"torch {torch.version}"] = torch.cuda
    if library is not None and library.cuda and library.version:
        builds[f"NCCL {shown(library.version)} ({plain(library.path)})"] = library.cuda
    return builds


def _only_ptx(
    prefix: str, environment: Environment, driver: str, state: NodeState, wanted: NodeWanted
) -> Iterator[Fault]:
    """Yield a fault where the driver would have to compile PTX of a newer toolkit."""
    torch = environment.torch
    toolkit = toolkits().get(torch.cuda) if torch and torch.cuda else None
    if torch is None or torch.architectures is None or toolkit is None:
        return
    if branch(driver) >= branch(toolkit) or branch(driver) < (floor(torch.cuda or "") or 0):
        return
    code = tuple(
        architecture for architecture in torch.architectures if architecture.startswith("sm_")
    )
    way = newer(str(branch(toolkit)), state, wanted)
    for gpu in models(state, wanted):
        needs = capability(gpu)
        if needs is None or runs_on(code, needs) or not runs_on(torch.architectures, needs):
            continue
        yield Fault(
            subject=Prefix(prefix),
            found=f"torch {torch.version} has only PTX of CUDA {torch.cuda} for {gpu}, and the "
            f"driver is {driver}",
            wanted=f"kernels for sm_{needs[0]}{needs[1]}"
            + f", or a driver of branch {way}" * bool(way),
            cause="it fails with 'the provided PTX was compiled with an unsupported toolchain': a "
            "driver compiles PTX of its own CUDA or an older one; minor version compatibility "
            "covers compiled kernels alone",
            fix=f"install a driver of branch {way}, or " * bool(way)
            + f"install a torch that is built for sm_{needs[0]}{needs[1]}"
            + _torch_for(state, wanted, environment),
        )


def _torch_for(state: NodeState, wanted: NodeWanted, environment: Environment) -> str:
    return torch_for(state, wanted, environment.torch.version if environment.torch else "")


def _without_kernels(
    at: At, prefix: str, environment: Environment, gpus: tuple[str, ...]
) -> Iterator[Fault]:
    """Yield a fault where no toolkit of libnccl's CUDA compiles for a GPU."""
    library = environment.loaded
    if library is None or library.cuda is None or library.version is None:
        return
    for gpu in gpus:
        last = last_cuda(library.cuda, gpu)
        if last is None:
            continue
        yield Fault(
            subject=Prefix(prefix),
            found=f"NCCL {shown(library.version)} for CUDA {library.cuda}",
            wanted=f"one for CUDA {last} or older, for {gpu}",
            cause=f"CUDA {last} is the last with kernels for {gpu}: a job ends in 'no "
            "kernel image is available for execution on the device' on the nodes with this GPU",
            fix=f"install a torch, and with it an NCCL, for CUDA {last}"
            + _torch_for(at.node, at.wanted, environment),
        )

"""What there is to choose from, and what rules a choice out on a node: by the tables of data/."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

from gpu_node.drift.driver.target import Branch, against_gpu, last_cuda, support
from gpu_node.drift.fit.node import Node
from gpu_node.drift.tables import Release, capability, releases, runs_on
from gpu_node.inventories.versions import numbers


class Wheel(NamedTuple):
    """A torch for a CUDA: 2.5.1, or 2.5 for each 2.5.x; `wheel` is default, or cu121 of PyTorch."""

    torch: str
    cuda: str
    wheel: str
    nccl: str | None


class Reason(NamedTuple):
    """Why a choice is ruled out, and the table of data/ that has it."""

    why: str
    table: str


# What a release is called; 2.9.0a0 is a build of another origin.
_RELEASE = re.compile(r"\d{1,4}(\.\d{1,4}){1,2}")
# Torches, CUDA versions and machines whose row is remembered: a node may lie.
_ROWS = 1024
# The architectures of a wheel that a node has, by torch, CUDA and machine.
Measured = Mapping[tuple[str, str, str], tuple[str, ...]]


def wheels(nodes: Collection[Node]) -> list[Wheel]:
    """Return every torch of the tables, oldest first; the versions that nodes have among them."""
    there = {
        (torch.version.partition("+")[0], torch.cuda)
        for node in nodes
        for _, torch in node.torches
        if _RELEASE.fullmatch(torch.version.partition("+")[0])
    }
    named: dict[tuple[str, str], None] = {}
    for row in releases():
        also = [version for version, cuda in there if cuda == row.cuda and row.is_of(version)]
        named.update(dict.fromkeys((torch, row.cuda) for torch in (row.torch, *also)))
    full = {(_minor(torch), cuda) for torch, cuda in named if torch.count(".") > 1}
    kept = [each for each in named if each[0].count(".") > 1 or each not in full]
    kept.sort(key=lambda each: (numbers(each[0]), numbers(each[1])))
    machines = {node.machine for node in nodes}
    return [_wheel(torch, cuda, machines) for torch, cuda in kept]


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def _wheel(torch: str, cuda: str, machines: Collection[str]) -> Wheel:
    own = [row for each in sorted(machines) if (row := row_of(torch, cuda, each)) is not None]
    alike = [row for row in releases() if row.cuda == cuda and row.is_of(torch)]
    given = [row.wheel for row in own or alike]
    nccl = next((row.nccl for row in (*own, *alike) if row.nccl), None)
    return Wheel(torch, cuda, next((each for each in given if each != "default"), given[0]), nccl)


@lru_cache(_ROWS)
def row_of(torch: str, cuda: str, machine: str) -> Release | None:
    """Return the row of a torch for a CUDA on a machine; None where no such wheel is known."""
    for row in releases():
        if row.machine == machine and row.cuda == cuda and row.is_of(torch):
            return row
    return None


def measured(nodes: Iterable[Node]) -> dict[tuple[str, str, str], tuple[str, ...]]:
    """Return what the torches of nodes have kernels for: they are surer than the table."""
    return {
        (torch.version.partition("+")[0], torch.cuda, node.machine): torch.architectures
        for node in nodes
        for _, torch in node.torches
        if torch.cuda and torch.architectures is not None
    }


def against_branch(branch: Branch, node: Node) -> Iterator[Reason]:
    """Yield what speaks against a driver branch on a node."""
    for gpu in node.models:
        if why := against_gpu(branch.number, gpu):
            yield Reason(why, "driver_branches.tsv")
    if node.module == "none":
        why = f"{' and '.join(node.models)} in one node: one needs the open kernel module, one "
        yield Reason(f"{why}the proprietary one", "driver_branches.tsv")
    if node.kernel and not branch.runs_on(node.kernel):
        why = f"it needs Linux {branch.kernel} or newer, found {node.kernel}"
        yield Reason(why, "drivers.tsv")


def against_module(kind: str, node: Node) -> Iterator[Reason]:
    """Yield what speaks against a kind of kernel module, open or proprietary, on a node."""
    for gpu in node.models:
        limits = support(gpu)
        if limits is None or limits.open == "yes" or (limits.open == "only") == (kind == "open"):
            continue
        why = "the open kernel module needs Turing or newer, which {} is not"
        why = why if kind == "open" else "{} has no other kernel module than the open one"
        yield Reason(why.format(gpu), "driver_branches.tsv")


def against_wheel(wheel: Wheel, node: Node, known: Measured) -> Iterator[Reason]:
    """Yield what speaks against a torch on a node."""
    of_cuda = [*against_cuda(wheel.cuda, node)]
    yield from of_cuda
    row = row_of(wheel.torch, wheel.cuda, node.machine)
    if row is None and node.unknown:
        return  # which wheel it takes is not known
    if row is None:
        yield Reason(f"no wheel for {node.machine} is known", "torch_releases.tsv")
        return
    measure = wheel.torch, wheel.cuda, node.machine
    architectures = known.get(measure, row.architectures)
    for gpu in node.models:
        needs = capability(gpu)
        # The last CUDA for a GPU is why a newer one has no kernels for it.
        if not of_cuda and needs is not None and not runs_on(architectures, needs):
            why = f"no kernels for {gpu} (sm_{needs[0]}{needs[1]})"
            yield Reason(why, "torch_releases.tsv")
    if node.glibc and numbers(node.glibc) < numbers(row.glibc):
        why = f"it needs glibc {row.glibc} or newer, found {node.glibc}"
        yield Reason(why, "torch_releases.tsv")


def against_cuda(cuda: str, node: Node) -> Iterator[Reason]:
    """Yield what speaks against a CUDA on a node: its last major release for a GPU."""
    for gpu in node.models:
        if last := last_cuda(cuda, gpu):
            yield Reason(f"CUDA {last} is the last for {gpu}", "driver_branches.tsv")

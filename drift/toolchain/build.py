"""What decides whether CUDA extensions build here: the rules of DeepSpeed, torch, and nvcc."""

import posixpath
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from packaging.version import Version

from gpu_node.drift.nccl.libnccl import environments
from gpu_node.facts.nccl.state import DeepSpeed, Environment, Torch
from gpu_node.facts.node import NodeState
from gpu_node.facts.toolchain.build import Build, Program

# DeepSpeed's cuda_minor_mismatch_ok (op_builder/builder.py, 0.19.6), for a release whose own list
# was not found; older releases have shorter ones. It has none for CUDA 13.
_ALIKE = (
    tuple(f"10.{minor}" for minor in range(3)),
    tuple(f"11.{minor}" for minor in range(9)),
    tuple(f"12.{minor}" for minor in (0, 1, 2, 3, 4, 5, 6, 8, 9)),
)
# nvcc of CUDA 11.4.0 takes GCC 10 at most, that of 11.4.1 GCC 11 (torch's cpp_extension.py).
_OLD_11_4, _ITS_LIMIT = "11.4.48", "11.0"


def of_torch(state: NodeState) -> Iterator[tuple[str, Environment, Torch, str]]:
    """Yield the environments whose torch has a CUDA, with that torch and that CUDA."""
    for prefix, environment in environments(state.nccl):
        torch = environment.torch
        if torch is not None and torch.cuda is not None:
            yield prefix, environment, torch, ".".join(torch.cuda.split(".")[:2])


def deepspeed_refuses(toolkit: str, cuda: str, deepspeed: DeepSpeed) -> bool:
    """Whether DeepSpeed's assert_no_cuda_mismatch ends with CUDAMismatchException.

    `toolkit` is nvcc's release, `cuda` that of torch, such as 12.1.
    """
    groups = deepspeed.alike if deepspeed.alike is not None else _ALIKE
    major = f"{toolkit.split('.')[0]}."
    alike = next((group for group in groups if group[:1] and group[0].startswith(major)), ())
    return toolkit != cuda and not (toolkit in alike and cuda in alike)


def torch_refuses(toolkit: str, cuda: str) -> bool:
    """Whether torch's _check_cuda_version refuses a toolkit: it has another major version."""
    return toolkit.split(".")[0] != cuda.split(".")[0]


class Range(NamedTuple):
    """The GCC that works: from a release on, and before another one; None: no bound is known."""

    least: str | None
    limit: str | None

    def text(self) -> str:
        """Return the range for a report."""
        if self.limit is None:
            return f"GCC {self.least} or later" if self.least else "a GCC"
        until = f"older than {self.limit}"
        return f"GCC {self.least} or later, {until}" if self.least else f"a GCC {until}"

    @property
    def newest(self) -> int | None:
        """The newest major version."""
        return None if self.limit is None else int(self.limit.split(".")[0]) - 1


def torch_accepts(torch: Torch, nvcc: Program) -> Range:
    """Return what torch's _check_cuda_version demands of GCC for this nvcc."""
    known = torch.compilers
    if known is None or nvcc.version not in known.cuda:
        return Range(None, None)
    least, limit = known.cuda[nvcc.version]
    return Range(least, _ITS_LIMIT if nvcc.output == _OLD_11_4 else limit)


def accepted(torch: Torch, build: Build, nvcc: Program) -> Range:
    """Return the GCC that torch, its headers and nvcc accept, as far as each is known."""
    by_torch = Range(None, None) if build.unchecked else torch_accepts(torch, nvcc)
    header = torch.compilers.header if torch.compilers else None
    least = [each for each in (by_torch.least, header) if each]
    limit = [by_torch.limit] if by_torch.limit else []
    if build.limit is not None:
        limit.append(f"{build.limit + 1}.0")
    return Range(max(least, key=Version, default=None), min(limit, key=Version, default=None))


def too_old(version: str, wanted: Range) -> bool:
    """Whether a GCC is older than what is accepted."""
    return wanted.least is not None and Version(version) < Version(wanted.least)


def too_new(version: str, wanted: Range) -> bool:
    """Whether a GCC is newer than what is accepted."""
    return wanted.limit is not None and Version(version) >= Version(wanted.limit)


def is_gcc(program: Program) -> bool:
    """Whether a compiler is a GCC: the bounds of clang are others."""
    return "clang" not in posixpath.basename(program.real)


def is_in_path(build: Build, folder: str) -> bool:
    """Whether the launcher's shell has a folder in PATH."""
    return folder in [each.rstrip("/") for each in build.path]


def newer_toolset(build: Build, wanted: Range) -> str | None:
    """Return a toolset's folder with a GCC that is accepted and not enabled in PATH."""
    for path in reversed(build.there):
        match = re.fullmatch(r"(/opt/rh/[a-z-]*toolset-(\d+))/root/usr/bin/g\+\+", path)
        if match and not too_old(match[2], wanted) and not too_new(match[2], wanted):
            return match[1]
    return None


def other_compiler(build: Build, wanted: Range) -> str | None:
    """Return the number of an accepted g++-NUMBER of the system."""
    for path in reversed(build.there):
        match = re.fullmatch(r"/usr/bin/g\+\+-(\d+)", path)
        if match and not too_old(match[1], wanted) and not too_new(match[1], wanted):
            return match[1]
    return None


def toolkit_there(build: Build, releases: Sequence[str]) -> str | None:
    """Return the folder of an installed toolkit of one of these releases."""
    for release in releases:
        if f"/usr/local/cuda-{release}/bin/nvcc" in build.there:
            return f"/usr/local/cuda-{release}"
    return None

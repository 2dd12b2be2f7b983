"""What a torch release was built for, by its own word or by the table, and what a GPU needs."""

import csv
import re
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from pathlib import Path
from shlex import quote
from typing import NamedTuple

from gpu_node.facts.nccl.state import Torch
from gpu_node.facts.toolchain.state import Platform
from gpu_node.inventories.versions import numbers

DATA = Path(__file__).parent / "data"
# Names of GPUs whose model is remembered: a node may lie, and send a new one each time.
_NAMES = 256
_INDEX = "https://download.pytorch.org/whl"


class Release(NamedTuple):
    """A row of torch_releases.tsv; `nccl` is None where unknown.

    `architectures` are those it has kernels for, such as sm_70; `glibc` is the oldest that it runs
    with, on a `machine` such as x86_64.
    """

    torch: str
    wheel: str
    cuda: str
    nccl: str | None
    architectures: tuple[str, ...]
    glibc: str
    machine: str

    def is_of(self, version: str) -> bool:
        """Whether the row is about a torch version such as 2.5.1: 2.5 is about each 2.5.x."""
        return self.torch in (version, ".".join(version.split(".")[:2]))

    def runs_there(self, platform: Platform | None) -> bool:
        """Whether its wheel runs on a platform; one that is unknown is taken for x86_64."""
        if platform is None:
            return self.machine == "x86_64"
        glibc = platform.glibc or self.glibc
        return self.machine == platform.machine and numbers(self.glibc) <= numbers(glibc)


def source(name: str) -> str:
    """Return what a table in data/ says of itself, as one line: where its rows are from."""
    lines = (DATA / name).read_text(encoding="utf-8").split("\n")
    return " ".join(line.removeprefix("#").strip() for line in lines if line.startswith("#"))


def rows(name: str | Path) -> Iterator[dict[str, str]]:
    """Yield the rows of a table in data/, or of any other; lines that begin with # are comments."""
    with (DATA / name).open(encoding="utf-8", newline="") as source:
        lines = (line for line in source if not line.startswith("#"))
        yield from csv.DictReader(lines, delimiter="\t")


@cache
def releases() -> tuple[Release, ...]:
    """Return the table, oldest release first within each wheel."""
    return tuple(
        Release(
            torch=row["torch"],
            wheel=row["wheel"],
            cuda=row["cuda"],
            nccl=row["nccl"] if row["nccl"] != "-" else None,
            architectures=tuple(row["architectures"].split()),
            glibc=row["glibc"],
            machine=row["machine"],
        )
        for row in rows("torch_releases.tsv")
    )


def pip_torch(
    gpus: Iterable[str],
    version: str = "",
    platform: Platform | None = None,
    most: int | None = None,
) -> str:
    """Return the command for a torch that has kernels for all of some GPUs; empty: there is none.

    It is that of `version` where the table has one, else the newest, for a CUDA whose major release
    is `most` at most, that runs on a platform.
    """
    needs = [each for each in map(capability, gpus) if each is not None]
    fit = [
        each
        for each in releases()
        if each.runs_there(platform)
        and (most is None or numbers(each.cuda)[0] <= most)
        and all(runs_on(each.architectures, need) for need in needs)
    ]
    version = version.partition("+")[0]
    same = [each for each in fit if version and each.is_of(version)]
    row = max(same or fit, key=lambda each: (numbers(each.torch), numbers(each.cuda)), default=None)
    if row is None:
        return ""
    wanted = version if same else row.torch if row.torch.count(".") > 1 else f"{row.torch}.*"
    index = "" if row.wheel == "default" else f" --index-url {_INDEX}/{row.wheel}"
    return f"pip install {quote(f'torch=={wanted}')}{index}"


@cache
def toolkits() -> dict[str, str]:
    """Return the CUDA toolkits, oldest first, with the driver that each brings."""
    return {row["cuda"]: row["driver"] for row in rows("cuda_drivers.tsv")}


def release_of(torch: Torch) -> Release | None:
    """Return a torch's row: by its version and CUDA, which its version.py names."""
    version = torch.version.partition("+")[0]
    for release in releases():
        if release.is_of(version) and release.cuda == torch.cuda:
            return release
    return None


def nccl_of(torch: Torch) -> str | None:
    """Return the NCCL that torch was built for: its metadata's pin, else the table's."""
    release = release_of(torch)
    return torch.nccl or (release.nccl if release else None)


@cache
def _capabilities() -> tuple[tuple[str, tuple[int, int]], ...]:
    """Return models and capabilities, the longest names first."""
    listed = [(row["model"], row["capability"].split(".")) for row in rows("gpus.tsv")]
    pairs = [(model, (int(major), int(minor))) for model, (major, minor) in listed]
    return tuple(sorted(pairs, key=lambda pair: -len(pair[0])))


def capability(gpu: str) -> tuple[int, int] | None:
    """Return a GPU's compute capability by the name that the driver, or the inventory, gives it."""
    return dict(_capabilities()).get(short_model(gpu) or "")


@lru_cache(_NAMES)
def short_model(gpu: str) -> str | None:
    """Return the model in a GPU's name, as gpus.tsv has it: V100 of Tesla V100-PCIE-32GB."""
    return next((model for model, _ in _capabilities() if is_model(gpu, model)), None)


def known_models() -> tuple[str, ...]:
    """Return the models that gpus.tsv has, the longest names first."""
    return tuple(model for model, _ in _capabilities())


def kinds(gpus: Iterable[str]) -> tuple[str, ...]:
    """Return the models among GPUs' names, each once; a name of no table is one of its own."""
    return tuple(dict.fromkeys(short_model(gpu) or gpu for gpu in gpus))


def is_model(gpu: str, model: str) -> bool:
    """Whether a GPU's name has the model's in it as whole words: no A100 is an A10."""
    words = rf"(?<![A-Za-z0-9]){re.escape(model)}(?![A-Za-z0-9])"
    return re.search(words, gpu, re.IGNORECASE) is not None


def runs_on(architectures: tuple[str, ...], gpu: tuple[int, int]) -> bool:
    """Whether code for these architectures runs on a GPU of a compute capability.

    sm_75 runs on its own generation, from 7.5 on; sm_90a on 9.0 alone; compute_70 is compiled on
    any later one. Source: the CUDA programming guide on binary and PTX compatibility.
    """
    return any(_runs(architecture, gpu) for architecture in architectures)


def _runs(architecture: str, gpu: tuple[int, int]) -> bool:
    kind, _, number = architecture.partition("_")
    own = number[-1:].isalpha()
    digits = number.rstrip("abcdefghijklmnopqrstuvwxyz")
    built = (int(digits[:-1]), int(digits[-1]))
    if own:
        return built == gpu
    return built <= gpu if kind == "compute" else built[0] == gpu[0] and built <= gpu

"""The tables of torch releases and GPUs, and what runs on what."""

from __future__ import annotations

from itertools import chain

import pytest

from gpu_node.drift.tables import (
    capability,
    nccl_of,
    pip_torch,
    release_of,
    releases,
    runs_on,
)
from gpu_node.facts.nccl.state import ARCHITECTURE, Torch
from gpu_node.facts.toolchain.state import Platform


def _torch(version: str, cuda: str | None, nccl: str | None = None) -> Torch:
    return Torch(version=version, cuda=cuda, wheel=None, nccl=nccl, architectures=None, root="/t")


@pytest.mark.parametrize(
    ("version", "cuda", "nccl"),
    [
        ("2.1.2+cu121", "12.1", "2.18.1"),
        ("2.1.2", "12.1", "2.18.1"),
        ("2.2.1+cu118", "11.8", "2.19.3"),
        ("2.14.0+cu126", "12.6", "2.29.3"),
        ("2.11.0+cu126", "12.6", None),
        ("2.1.2", "11.6", None),
        ("9.9.9", "12.1", None),
        ("2.1.2+cpu", None, None),
    ],
)
def test_the_nccl_of_a_release(version: str, cuda: str | None, nccl: str | None) -> None:
    """By version and CUDA together; what the table does not know is not guessed."""
    assert nccl_of(_torch(version, cuda)) == nccl


def test_its_own_word_goes_first() -> None:
    """A pin of the metadata beats the table."""
    assert nccl_of(_torch("2.1.2+cu121", "12.1", "2.19.3")) == "2.19.3"


def test_the_table_is_whole() -> None:
    """Each row was read, and sm_70 ends where the field's GPU guide says."""
    assert len(releases()) >= 40
    defaults = [each for each in releases() if each.wheel == "default"]
    assert [each.torch for each in defaults if "sm_70" in each.architectures][-1] == "2.10.0"
    found = release_of(_torch("2.11.0+cu130", "13.0"))
    assert found is not None and "sm_70" not in found.architectures


INDEX = "--index-url https://download.pytorch.org/whl"
CENTOS = Platform(machine="x86_64", glibc="2.17")
ARM = Platform(machine="aarch64", glibc="2.39")


@pytest.mark.parametrize(
    ("gpus", "version", "platform", "most", "words"),
    [
        pytest.param(["V100"], "", None, None, f"'torch==2.14.*' {INDEX}/cu126", id="newest"),
        pytest.param(["V100"], "2.12.0+cu130", None, 12, f"torch==2.12.0 {INDEX}/cu126", id="same"),
        pytest.param(["V100"], "2.9.1+cu130", None, 12, "torch==2.9.1", id="the same by plain pip"),
        pytest.param(["V100"], "2.15.0", CENTOS, 12, "torch==2.6.0", id="glibc of CentOS 7"),
        pytest.param(["A100", "V100"], "", None, None, f"'torch==2.14.*' {INDEX}/cu126", id="both"),
        pytest.param(["A100"], "", None, 13, "torch==2.15.0", id="newest of all"),
        pytest.param(["A100"], "", None, 12, f"'torch==2.14.*' {INDEX}/cu126", id="older driver"),
        pytest.param(["V100", "B200"], "", None, 12, "torch==2.10.0", id="old and new"),
        pytest.param(["V100"], "", ARM, 12, None, id="none"),
    ],
)
def test_the_torch_for_gpus(
    gpus: list[str], version: str, platform: Platform | None, most: int | None, words: str | None
) -> None:
    """The version that is there, else the newest; its index, where plain pip takes another."""
    assert pip_torch(gpus, version, platform, most) == (f"pip install {words}" if words else "")


def test_each_row_is_readable() -> None:
    """Architectures, glibc and machine have their form; no build is in the table twice."""
    rows = releases()
    assert all(map(ARCHITECTURE.fullmatch, chain(*(each.architectures for each in rows))))
    assert all(each.architectures for each in rows)
    assert {each.glibc for each in rows} == {"2.17", "2.28"}
    assert {each.machine for each in rows} == {"x86_64", "aarch64"}
    builds = [(each.torch, each.cuda, each.machine) for each in rows]
    assert len({*builds}) == len(builds)


@pytest.mark.parametrize(
    ("name", "pair"),
    [
        ("Tesla V100-PCIE-32GB", (7, 0)),
        ("NVIDIA A100-SXM4-80GB", (8, 0)),
        ("A100", (8, 0)),
        ("NVIDIA A10", (8, 6)),
        ("NVIDIA A10G", (8, 6)),
        ("NVIDIA GeForce RTX 5090", (12, 0)),
        ("NVIDIA GeForce RTX 2080 Ti", (7, 5)),
        ("NVIDIA H200", (9, 0)),
        ("NVIDIA Z900", None),
    ],
)
def test_capabilities(name: str, pair: tuple[int, int] | None) -> None:
    """By whole words of the name, however long the name is."""
    assert capability(name) == pair


@pytest.mark.parametrize(
    ("architectures", "gpu", "runs"),
    [
        (("sm_70", "sm_80"), (7, 0), True),
        (("sm_75", "sm_80"), (7, 0), False),
        (("sm_80",), (8, 6), True),
        (("sm_86",), (8, 0), False),
        (("sm_90a",), (9, 0), True),
        (("sm_100a",), (10, 3), False),
        (("sm_50", "compute_50"), (12, 0), True),
        (("sm_120",), (12, 0), True),
        ((), (7, 0), False),
    ],
)
def test_what_runs_on_what(
    architectures: tuple[str, ...], gpu: tuple[int, int], runs: bool
) -> None:
    """A cubin within its generation, PTX on anything later, an a-suffix on one alone."""
    assert runs_on(architectures, gpu) == runs

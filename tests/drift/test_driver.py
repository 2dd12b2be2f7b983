"""The driver's tables: what a GPU can take, which GPU a PCI id is, which source of names wins."""

from __future__ import annotations

import pytest

from gpu_node.drift.driver import target as driver
from gpu_node.drift.tables import capability
from tests.drift import states

BUS = {"devices": [{"id": "0x1DB6", "driver": ""}]}
SILENT = {"smi": {"gpus": []}, "devices": []}


@pytest.mark.parametrize(
    ("gpu", "expected"),
    [
        ("Tesla V100-PCIE-32GB", driver.Support(384, 580, "no", 12)),
        ("NVIDIA A100-SXM4-80GB", driver.Support(450, None, "yes", None)),
        ("NVIDIA B200", driver.Support(570, None, "only", None)),
        ("NVIDIA Z900", None),
    ],
)
def test_what_a_gpu_can_take(gpu: str, expected: driver.Support | None) -> None:
    """By its compute capability."""
    assert driver.support(gpu) == expected


def test_each_device_id_is_of_a_model_with_a_branch() -> None:
    """A model that the other tables do not know would be let through."""
    models = set(driver.models_by_id().values())
    assert models
    assert {model for model in models if driver.support(model) is None} == set()
    assert all(capability(model) for model in models)


def test_an_id_is_read_in_either_case() -> None:
    """The bus has small letters, people have others."""
    assert driver.model_of("0x1DB6") == "Tesla V100-PCIE-32GB"
    assert driver.model_of("0xffff") is None


def test_which_names_of_gpus_win() -> None:
    """nvidia-smi's, else the driver's /proc, else the bus's, else the inventory's."""
    proc_gpus = {"gpus": ["NVIDIA A40", "NVIDIA A40"]}
    smi = states.state({"nccl": proc_gpus})
    assert driver.models(smi, states.wanted()) == ("NVIDIA A100-PCIE-40GB",)
    proc = states.state({"driver": {**SILENT, **BUS}, "nccl": proc_gpus})
    assert driver.models(proc, states.wanted()) == ("NVIDIA A40",)
    bus = states.state({"driver": {**SILENT, **BUS}, "nccl": {"gpus": []}})
    assert driver.models(bus, states.wanted()) == ("Tesla V100-PCIE-32GB",)
    none = states.state({"driver": SILENT, "nccl": {"gpus": None}})
    assert driver.models(none, states.wanted()) == ("A100",)
    assert driver.models(none, states.wanted({"gpu_model": None, "gpu_count": None})) == ()


@pytest.mark.parametrize(
    ("change", "version"),
    [
        ({}, "535.154.05"),
        ({"library": "535.129.03"}, "535.129.03"),
        ({"library": ""}, "535.154.05"),
        ({"library": "", "dkms": {"sources": []}, "loaded": {"nvidia": "535.1.1"}}, "535.1.1"),
        ({"library": "", "dkms": {"sources": []}, "loaded": {"nvidia": "525.1.1"}}, None),
        ({"library": "550.1.1"}, None),
        ({"library": None}, None),
    ],
)
def test_the_version_that_every_kernel_needs(
    change: dict[str, object], version: str | None
) -> None:
    """The library decides; else what can be built; else what is loaded; if it is wanted at all."""
    found, wanted = states.state({"driver": change}), states.wanted({"driver_version": "535"})
    assert wanted.driver
    assert driver.target(found.driver, wanted.driver) == version


def test_a_boot_that_a_line_keeps_the_module_from() -> None:
    """No reboot is begun that would lose the GPUs."""
    version = "535.154.05"
    assert driver.survives_boot(states.state().driver, version)
    bar = {"place": "/proc/cmdline", "text": "modprobe.blacklist=nvidia"}
    found = states.state({"driver": {"loaded": {"bars": [bar]}}})
    assert not driver.survives_boot(found.driver, version)
    image = states.state({"driver": {"stale_images": {"3.10.0-1160.el7.x86_64": True}}})
    assert not driver.survives_boot(image.driver, version)

"""The driver on a node of the rpm family that has none: its packages by dnf, in one run."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from gpu_node.lab import nodes, roster
from tests.e2e.conftest import WriteInventory, others_off
from tests.e2e.on_lab import assert_at_rest, converge, drift, dry, on

pytestmark = pytest.mark.lab

NODE = "v100-01"
VERSION = "535.154.05"
PACKAGES = ("kmod-nvidia-latest-dkms", "nvidia-driver-latest-dkms")
# What NVIDIA's installer brought goes, as by nvidia-uninstall, and what builds it.
UNINSTALL = f"""
modprobe -r nvidia
dkms remove nvidia/{VERSION} --all >/dev/null 2>&1
rm -rf /usr/src/nvidia-{VERSION} /usr/lib64/libnvidia-ml.so* /usr/bin/nvidia-smi
rm -f /etc/modprobe.d/nvidia-installer-disable-nouveau.conf
rpm -e --nodeps dkms $(rpm -qa 'kernel-devel*') 2>/dev/null
ldconfig"""


@pytest.fixture
def site(inventory: WriteInventory) -> str:
    """An inventory of the node alone, whose driver is managed, and a node without any."""
    nodes.reset([NODE])
    on(NODE, UNINSTALL)
    path = inventory({})
    file = Path(path).with_suffix(".yml")
    cluster = yaml.safe_load(file.read_text())
    cluster["defaults"] = {name: cluster["defaults"][name] for name in ("ssh", "driver")}
    cluster["defaults"]["checks"] = others_off(cluster)
    cluster["hosts"] = {NODE: {"address": roster.NODES[NODE].address, "group": "v100"}}
    file.write_text(yaml.safe_dump(cluster))
    return path


def test_the_whole_driver_by_one_run(site: str) -> None:
    """Exactly the version, though a newer one is there; built for both kernels, loaded, held."""
    found = {each["rule"]: each for each in drift(site).json["hosts"][NODE]["findings"]}
    assert found["driver.not-installed"]["fixable"]
    plan = dry(site)
    done = converge(site)
    assert (done.code, done.executed.keys()) == (0, plan.keys()), done.err
    asked = on(NODE, f"rpm -q --qf '%{{VERSION}} ' {' '.join(PACKAGES)}")
    assert asked.split() == [VERSION, VERSION]
    held = on(NODE, "dnf -q versionlock list")
    assert all(name in held for name in PACKAGES)
    for kernel in on(NODE, "ls /lib/modules").split():
        assert on(NODE, f"modinfo -k {kernel} -F version nvidia").strip() == VERSION
    asked = on(NODE, "nvidia-smi --query-gpu=driver_version,persistence_mode --format=csv,noheader")
    assert asked.splitlines() == [f"{VERSION}, Enabled"] * 2
    assert_at_rest(site, NODE)

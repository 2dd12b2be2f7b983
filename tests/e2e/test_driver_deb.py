"""The driver on a bare node of the apt family: what is refused, and dkms from nothing."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from lab import nodes, roster
from tests.e2e.conftest import WriteInventory
from tests.e2e.running import assert_at_rest, changed, converge, drift, manifest, on

pytestmark = pytest.mark.lab

BARE = "v100-02"
VERSION = "535.154.05"
DRIVER = roster.REPOSITORY / "lab" / "driver"
# What NVIDIA's packages leave: the sources, and the library of user space.
UNPACK = f"""
mkdir -p /usr/src/nvidia-{VERSION}
for name in dkms.conf Makefile nvidia.c; do cat /tmp/$name >/usr/src/nvidia-{VERSION}/$name; done
echo 'void nvml(void) {{}}' | cc -shared -nostdlib -fPIC -Wl,-soname,libnvidia-ml.so.1 -x c - \\
  -o /usr/lib/x86_64-linux-gnu/libnvidia-ml.so.{VERSION}
ldconfig"""


@pytest.fixture
def bare(inventory: WriteInventory) -> Iterator[Path]:
    """The cluster file of v100-02 alone: two V100 by their PCI ids, and no driver at all."""
    nodes.reset([BARE])
    key = roster.CLIENT_KEY.with_suffix(".pub").read_text().strip()
    on(BARE, f"mkdir -p /root/.ssh && echo '{key}' >/root/.ssh/authorized_keys")
    file = Path(inventory({})).with_suffix(".yml")
    cluster = yaml.safe_load(file.read_text())
    ssh, shm = cluster["defaults"]["ssh"], cluster["defaults"]["shm"]
    cluster["defaults"] = {"ssh": ssh, "shm": shm}
    del cluster["groups"]["v100"]["gpu"]
    cluster["hosts"] = {BARE: {"address": roster.NODES[BARE].address, "group": "v100"}}
    file.write_text(yaml.safe_dump(cluster))
    yield file
    nodes.reset([BARE])


def want(file: Path, version: str) -> str:
    """The inventory that wants this driver as well."""
    cluster = yaml.safe_load(file.read_text())
    cluster["defaults"]["driver"] = {"version": version}
    file.write_text(yaml.safe_dump(cluster))
    return str(file.with_suffix(".py"))


def test_a_driver_that_leaves_a_v100_alone_is_refused(bare: Path) -> None:
    """Known by its PCI id alone; stopped by the rule before anything at all is changed."""
    site = want(bare, "590")
    found = {each["rule"]: each for each in drift(site).json["hosts"][BARE]["findings"]}
    assert found["driver.unsupported-gpu"]["subject"] == "Tesla V100-PCIE-32GB"
    assert "shm.too-small" in found
    before = manifest(BARE)
    done = converge(site)
    assert done.code == 1
    assert "driver.unsupported-gpu" in done.err and "at most branch 580" in done.err
    assert changed(before, manifest(BARE)) == set()


def test_a_bare_node_is_told_that_it_has_no_driver(bare: Path) -> None:
    """The driver itself is a person's to install; the rest of the node converges."""
    site = want(bare, VERSION)
    done = converge(site)
    assert done.code == 1
    assert "driver.not-installed" in done.err
    assert {each["rule"] for each in drift(site).json["hosts"][BARE]["findings"]} == {
        "driver.not-installed"
    }


def test_dkms_and_headers_come_by_apt(bare: Path) -> None:
    """The driver's files are there, and nothing that could build them: dkms, headers, module."""
    for path in DRIVER.iterdir():
        on(BARE, f"cat >/tmp/{path.name} <<'END'\n{path.read_text()}END\n")
    on(BARE, UNPACK)
    site = want(bare, VERSION)
    found = {each["rule"] for each in drift(site).json["hosts"][BARE]["findings"]}
    assert {"driver.dkms-missing", "driver.headers-missing", "driver.module-not-built"} <= found
    done = converge(site)
    kernel = on(BARE, "uname -r").strip()
    assert on(BARE, f"modinfo -k {shlex.quote(kernel)} -F version nvidia").strip() == VERSION
    assert on(BARE, f"dpkg-query -W -f '${{Status}}' linux-headers-{kernel} dkms").count("ok") == 2
    assert on(BARE, "cat /sys/module/nvidia/version").strip() == VERSION
    # What is left is nvidia-smi, which came with no package here.
    assert done.code == 1
    assert {each["rule"] for each in drift(site).json["hosts"][BARE]["findings"]} == {
        "driver.smi-fails"
    }
    gpu = "Tesla V100-PCIE-32GB, GPU-1, 1, Enabled, Enabled, 535, 7.0"
    on(BARE, f"printf '#!/bin/sh\\necho {gpu}\\n' >/usr/bin/nvidia-smi")
    on(BARE, "chmod 755 /usr/bin/nvidia-smi")
    assert_at_rest(site, BARE)

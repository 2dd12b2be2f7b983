"""The order of the field notes on a real machine: update, boot, no driver, deploy, driver.

The update was installed on the disk when the disk was built, by the command `disk.UPDATING`. The
machine was then booted twice: with the kernel before the update, and with the update. Where the
processor is emulated this machine goes on from there.

The tests stand in the order of the story: one boot serves several. What is true is asked of the
kernel itself: lsmod, dmesg, /proc.
"""

from __future__ import annotations

import pytest

from gpu_node.lab.kernel import saved
from gpu_node.lab.kernel.machine import Machine
from tests.e2e.on_lab import converge
from tests.kernel.products import deploy, findings

pytestmark = pytest.mark.kernel
# The machine was updated and then booted.
STATE = saved.BOOTED
VERSION = "535.154.05"


def test_an_update_without_headers_loses_the_driver(machine: Machine) -> None:
    """GRUB starts the kernel of the update, which has no module."""
    assert machine.read("uname -r") == machine.kernels.update
    assert machine.run("test -e /proc/driver/nvidia").returncode != 0
    tried = machine.run("modprobe nvidia")
    assert tried.returncode != 0
    assert "Module nvidia not found" in tried.stderr


def test_the_report_says_what_is_lacking(machine: Machine, inventory: str) -> None:
    """The running kernel has neither headers nor module; nvidia-smi is not run."""
    found = findings(inventory)
    assert found["driver.module-not-built"]["subject"] == machine.kernels.update
    assert found["driver.headers-missing"]["subject"] == machine.kernels.update
    assert found["driver.not-loaded"]["found"] == "not loaded"
    assert "driver.next-boot" not in found


def test_the_deploy_brings_it_back_without_a_boot(machine: Machine, inventory: str) -> None:
    """Headers, a build for this kernel, and the module in it; the other kernel's build stays."""
    before = machine.boot_id()
    done = deploy(inventory)
    assert done.code == 0, done.err
    assert "nvidia" in machine.read("lsmod | cut -d' ' -f1").split()
    assert f"Kernel Module  {VERSION} " in machine.read("cat /proc/driver/nvidia/version")
    assert "NVRM: loading NVIDIA" in machine.read("dmesg")
    assert machine.read("dkms status nvidia | grep -c ': installed'") == "2"
    assert machine.boot_id() == before != ""


def test_it_is_at_rest(machine: Machine, inventory: str) -> None:
    """Nothing is reported, and there is nothing to do."""
    assert findings(inventory) == {}
    again = converge(inventory)
    assert (again.code, again.executed) == (0, {})

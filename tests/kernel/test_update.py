"""A kernel's update on a real machine, in the order of the tests: one boot serves several."""

from __future__ import annotations

import pytest

from lab.kernel.machine import Machine

pytestmark = pytest.mark.kernel
VERSION = "535.154.05"
SHM = "tmpfs /dev/shm tmpfs rw,nosuid,nodev,size=192m 0 0"
LIMITS = "root hard nofile 23456"


def grubs_first_choice(machine: Machine) -> str:
    """Return the release of the kernel that the first entry of GRUB's menu starts."""
    script = r"sed -n 's|^[[:space:]]*linux[[:space:]]*/boot/vmlinuz-\([^ ]*\).*|\1|p' "
    return machine.read(script + "/boot/grub/grub.cfg | head -n 1")


def test_boots_and_loads_the_driver(machine: Machine) -> None:
    """GRUB starts the installed kernel, and that the module that dkms built for it."""
    assert machine.read("uname -r") == machine.kernels.first
    assert "nvidia" in machine.read("lsmod | cut -d' ' -f1").split()
    assert f"Kernel Module  {VERSION} " in machine.read("cat /proc/driver/nvidia/version")
    assert f"NVRM: loading NVIDIA UNIX x86_64 Kernel Module  {VERSION}" in machine.read("dmesg")
    assert machine.read("systemctl --failed --no-legend") == ""


def test_lists_the_cards_with_the_drivers_library(machine: Machine) -> None:
    """What a user asks of the driver has its answers."""
    assert machine.read("nvidia-smi -L | wc -l") == "2"
    library = machine.read("ldconfig -p | sed -n 's/.*libnvidia-ml.so.1 .*=> //p'")
    assert machine.read(f"readlink -f {library}").endswith(f"libnvidia-ml.so.{VERSION}")


def test_an_update_without_headers_loses_the_driver(machine: Machine) -> None:
    """The other kernel comes by apt; GRUB takes it at the next boot, and no module is there."""
    machine.read(f"apt-get -qq install -y linux-image-{machine.kernels.update}", 300)
    assert machine.read("uname -r") == machine.kernels.first
    assert grubs_first_choice(machine) == machine.kernels.update
    machine.read(f"printf '\\n%s\\n' '{SHM}' >>/etc/fstab && findmnt --verify")
    machine.read(f"echo '{LIMITS}' >/etc/security/limits.d/90-test.conf")
    machine.reboot()
    assert machine.read("uname -r") == machine.kernels.update
    assert not machine.run("test -e /proc/driver/nvidia").returncode == 0
    tried = machine.run("modprobe nvidia")
    assert tried.returncode != 0
    assert "Module nvidia not found" in tried.stderr


def test_fstab_and_limits_hold_after_a_boot(machine: Machine) -> None:
    """What was written before the boot of the test above is what came of it."""
    assert machine.read("df --output=size --block-size=1M /dev/shm | tail -n 1").strip() == "192"
    assert machine.read("ulimit -Hn") == "23456"


def test_headers_bring_the_driver_back_without_a_boot(machine: Machine) -> None:
    """With the headers dkms builds for the running kernel, and the module loads."""
    before = machine.boot_id()
    machine.read(f"apt-get -qq install -y linux-headers-{machine.kernels.update}", 300)
    assert f"{machine.kernels.update}, x86_64: installed" in machine.read("dkms status nvidia")
    machine.read("modprobe nvidia")
    assert f"Kernel Module  {VERSION} " in machine.read("cat /proc/driver/nvidia/version")
    assert machine.boot_id() == before != ""

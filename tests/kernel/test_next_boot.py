"""Before the boot: an update waits, everything works, and the deploy sees to it in time.

The update was installed on the disk when the disk was built, by the command `disk.UPDATING`, and
GRUB started the kernel before it once more. Where the processor is emulated this machine goes on
from there.

The tests stand in the order of the story: one boot serves several. What is true is asked of the
kernel itself: lsmod, /proc, /sys.
"""

from __future__ import annotations

import pytest

from gpu_node.lab.kernel import saved
from gpu_node.lab.kernel.machine import Machine
from tests.kernel.products import deploy, findings

pytestmark = pytest.mark.kernel
# The update is installed and not booted.
STATE = saved.WAITING
VERSION, OLDER = "535.154.05", "535.129.03"
# An older driver's module, as an update leaves it in memory: its version is all that differs.
LOAD_OLDER = f"""
modprobe -r nvidia
sed 's/{VERSION}/{OLDER}/g' "$(modinfo -n nvidia)" >/run/nvidia.ko
insmod /run/nvidia.ko
cat /sys/module/nvidia/version"""
# A program at a path that has a GPU open.
HOLD = """
[ -e /dev/nvidia0 ] || mknod /dev/nvidia0 c 195 0
cp /bin/sleep {path}
setsid sh -c 'exec 5</dev/nvidia0; exec {path} 600' >/dev/null 2>&1 </dev/null &
sleep 2
pgrep -f '^{path} 600'"""


def test_boots_and_loads_the_driver(machine: Machine) -> None:
    """GRUB starts the installed kernel, which loads the module that dkms built for it."""
    assert machine.read("uname -r") == machine.kernels.first
    assert "nvidia" in machine.read("lsmod | cut -d' ' -f1").split()
    assert f"Kernel Module  {VERSION} " in machine.read("cat /proc/driver/nvidia/version")
    assert f"NVRM: loading NVIDIA UNIX x86_64 Kernel Module  {VERSION}" in machine.read("dmesg")
    assert machine.read("systemctl --failed --no-legend") == ""


def test_lists_the_cards_with_the_drivers_library(machine: Machine) -> None:
    """nvidia-smi lists both GPUs, and ldconfig finds the driver's library."""
    assert machine.read("nvidia-smi -L | wc -l") == "2"
    library = machine.read("ldconfig -p | sed -n 's/.*libnvidia-ml.so.1 .*=> //p'")
    assert machine.read(f"readlink -f {library}").endswith(f"libnvidia-ml.so.{VERSION}")


def test_the_report_looks_at_the_next_boot(machine: Machine, inventory: str) -> None:
    """The update is installed and not booted: the GPUs work, but the report warns."""
    assert machine.read(f"ls /boot/vmlinuz-{machine.kernels.update}")
    assert machine.read("uname -r") == machine.kernels.first
    assert machine.read("nvidia-smi -L | wc -l") == "2"
    found = findings(inventory)
    assert found["driver.next-boot"]["subject"] == machine.kernels.update
    assert found["driver.next-boot"]["severity"] == "error"
    assert "boots next, according to grub.cfg" in found["driver.next-boot"]["cause"]
    assert not {"driver.module-not-built", "driver.not-loaded"} & found.keys()


def test_grub_may_have_another_default(machine: Machine, inventory: str) -> None:
    """With the old kernel as the next boot's, by grub-reboot, the update is a warning."""
    script = "sed -n \"s/.*menuentry_id_option '\\(gnulinux-{0}-advanced[^']*\\)'.*/\\1/p\" {1}"
    entry = machine.read(script.format(machine.kernels.first, "/boot/grub/grub.cfg"))
    above = machine.read(
        "sed -n \"s/^submenu .*menuentry_id_option '\\([^']*\\)'.*/\\1/p\" /boot/grub/grub.cfg"
    )
    machine.read(f"grub-reboot '{above}>{entry}'")
    assert findings(inventory)["driver.next-boot"]["severity"] == "warning"
    machine.read("grub-editenv /boot/grub/grubenv unset next_entry")


def test_the_deploy_prepares_the_next_boot(machine: Machine, inventory: str) -> None:
    """The module is built for the kernel that boots next, and the running one keeps its own."""
    done = deploy(inventory)
    assert done.code == 0, done.err
    assert machine.read("uname -r") == machine.kernels.first
    assert machine.read("dkms status nvidia | grep -c ': installed'") == "2"


def test_a_job_is_not_taken_its_driver(machine: Machine, inventory: str) -> None:
    """A process has a GPU open: it is named, and an allowed reboot waits for it."""
    assert machine.read(LOAD_OLDER) == OLDER
    machine.read(HOLD.format(path="/usr/local/bin/train"))
    before = machine.boot_id()
    done = deploy(inventory, "--data", "reboot=true")
    assert done.code == 1
    assert "in use by pid" in done.err and "train 600" in done.err
    assert machine.read("cat /sys/module/nvidia/version") == OLDER
    assert machine.boot_id() == before
    machine.read("pkill -x train; sleep 1")


def test_what_only_a_boot_cures_says_so(machine: Machine, inventory: str) -> None:
    """A daemon that the deploy does not end uses the module: no reboot without `reboot=true`."""
    machine.read(HOLD.format(path="/usr/bin/nvidia-persistenced"))
    before = machine.boot_id()
    done = deploy(inventory)
    assert done.code == 1
    assert "a reboot is due: --data reboot=true" in done.err
    assert (machine.boot_id(), machine.read("cat /sys/module/nvidia/version")) == (before, OLDER)


def test_a_reboot_that_was_asked_for(machine: Machine, inventory: str) -> None:
    """It is rebooted, waited for, and proved: the driver is right after it."""
    before = machine.boot_id()
    done = deploy(inventory, "--data", "reboot=true")
    assert done.code == 0, done.err
    machine.wait(before)
    assert machine.boot_id() not in ("", before)
    assert machine.read("cat /sys/module/nvidia/version") == VERSION
    assert findings(inventory) == {}


def test_the_boot_keeps_its_gpus(machine: Machine) -> None:
    """The new kernel has loaded by itself the module that the deploy built before the boot."""
    assert machine.read("uname -r") == machine.kernels.update
    assert "nvidia" in machine.read("lsmod | cut -d' ' -f1").split()
    assert f"Kernel Module  {VERSION} " in machine.read("cat /proc/driver/nvidia/version")
    assert machine.read("nvidia-smi -L | wc -l") == "2"


def test_fstab_and_limits_hold_after_the_boot(machine: Machine) -> None:
    """The settings that the deploy wrote take effect at the boot."""
    assert machine.read("df --output=size --block-size=1M /dev/shm | tail -n 1").strip() == "600"
    assert machine.read("ulimit -Sn") == "23456"

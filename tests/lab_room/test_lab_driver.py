"""Kernels and the driver on the lab's nodes: as found, built by dkms, lost by a boot."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gpu_node.lab import life, machine, nodes, roster

pytestmark = pytest.mark.lab

OLDER = "3.10.0-1160.71.1.el7.x86_64"
NEWER = "3.10.0-1160.119.1.el7.x86_64"
DKMS = "dkms {} -m nvidia -v 535.154.05 -k {}"
INSTALL = f"yum -y install kernel-devel-{NEWER}"


@pytest.fixture(scope="module", autouse=True)
def _the_lab() -> Iterator[None]:
    life.up()
    yield
    nodes.reset(["a100-01", "v100-01"])


def _on(node: str, script: str) -> str:
    done = nodes.execute(node, f"{script} 2>&1")
    return f"{done.returncode} {done.stdout.strip()}".strip()


def _by_ssh(node: str, script: str) -> str:
    options = ["-F", "none", "-i", str(roster.CLIENT_KEY), "-o", "BatchMode=yes"]
    options += ["-o", "IdentitiesOnly=yes", "-o", f"UserKnownHostsFile={roster.KNOWN_HOSTS}"]
    return machine.run(["ssh", *options, f"root@{roster.NODES[node].address}", script]).stdout


@pytest.fixture
def a100() -> str:
    """The launching node as found."""
    nodes.reset(["a100-01"])
    return "a100-01"


@pytest.fixture
def v100() -> str:
    """The other node as found."""
    nodes.reset(["v100-01"])
    return "v100-01"


def test_a_boot_into_an_updated_kernel_lost_the_driver(a100: str) -> None:
    """Field note A6, with the messages of nvidia-smi and of modprobe."""
    assert _on(a100, "uname -r") == f"0 {NEWER}"
    assert _on(a100, "nvidia-smi").startswith("9 NVIDIA-SMI has failed because it couldn't")
    assert _on(a100, "modprobe nvidia") == (
        f"1 modprobe: FATAL: Module nvidia not found in directory /lib/modules/{NEWER}"
    )
    assert _on(a100, "dkms status") == f"0 nvidia/535.154.05, {OLDER}, x86_64: installed"
    assert _on(a100, f"rpm -q kernel-devel dkms kernel-{NEWER}") == (
        f"0 kernel-devel-{OLDER}\ndkms-3.0.10-1.el7.noarch\nkernel-{NEWER}"
    )


def test_a_session_sees_what_the_lab_sees(v100: str) -> None:
    """Mounts over /proc and /sys exist for sshd and for the lab's scripts."""
    asked = "uname -r; cat /proc/driver/nvidia/version /sys/module/nvidia/version; ls /dev/nvidia*"
    assert _by_ssh(v100, asked) == nodes.execute(v100, asked).stdout
    assert _by_ssh(v100, "cat /sys/bus/pci/devices/*/device").split() == ["0x1db6", "0x1db6"]


def test_a_node_not_booted_since_the_update_works(v100: str) -> None:
    """Until the next boot, for which nothing was built."""
    assert _on(v100, "uname -r") == f"0 {OLDER}"
    assert _on(v100, "grubby --default-kernel") == f"0 /boot/vmlinuz-{NEWER}"
    asked = "nvidia-smi --query-gpu=name,driver_version --format=csv,noheader"
    assert _on(v100, asked) == "0 " + "\n".join(["Tesla V100-PCIE-32GB, 535.154.05"] * 2)
    nodes.recreate(v100)
    assert _on(v100, "uname -r") == f"0 {NEWER}"
    assert _on(v100, "nvidia-smi").startswith("9 ")


def test_a_boot_into_the_chosen_kernel_loads_its_driver(v100: str) -> None:
    assert _on(v100, f"grubby --set-default /boot/vmlinuz-{OLDER}") == "0"
    nodes.recreate(v100)
    assert _on(v100, "uname -r; cat /sys/module/nvidia/version") == f"0 {OLDER}\n535.154.05"


def test_dkms_builds_for_the_kernel_that_runs(a100: str) -> None:
    """The real dkms builds it once the kernel's headers are installed; it survives a boot."""
    refused = _on(a100, DKMS.format("build", NEWER))
    assert refused.startswith("1 ") and "kernel headers" in refused
    for step in (INSTALL, DKMS.format("install", NEWER), "modprobe -v nvidia", "nvidia-smi -L"):
        assert _on(a100, step).startswith("0 "), step
    assert _on(a100, "modinfo -F version nvidia") == "0 535.154.05"
    nodes.recreate(a100)
    assert _on(a100, "uname -r; cat /sys/module/nvidia/version") == f"0 {NEWER}\n535.154.05"


def test_a_build_that_fails_tells_where_to_read_why(a100: str) -> None:
    assert _on(a100, INSTALL).startswith("0 ")
    assert _on(a100, "echo 'not C' >>/usr/src/nvidia-535.154.05/nvidia.c") == "0"
    output = _on(a100, DKMS.format("build", NEWER))
    assert output.startswith("10 ") and "make.log for more information" in output
    assert "error: " in _on(a100, "cat /var/lib/dkms/nvidia/535.154.05/build/make.log")


def test_a_process_holds_a_gpu_open(v100: str) -> None:
    """While a process uses the GPU, the driver cannot be unloaded."""
    held = "sleep 60 </dev/nvidia1 >/dev/null 2>&1 & echo $!"
    holder = nodes.execute(v100, held, check=True).stdout.strip()
    assert _on(v100, "rmmod nvidia") == "1 rmmod: ERROR: Module nvidia is in use"
    assert _on(v100, "modprobe -r nvidia") == "1 modprobe: FATAL: Module nvidia is in use."
    assert _on(v100, f"kill {holder}; sleep 0.2; modprobe -r nvidia") == "0"
    assert _on(v100, "nvidia-smi").startswith("9 ")


def test_nouveau_is_loaded_by_an_image_that_does_not_know_better(v100: str) -> None:
    """The boot image was built without a blacklist of nouveau, so the driver finds no free GPU."""
    chosen = f"grubby --set-default /boot/vmlinuz-{OLDER}"
    gone = "mv /etc/modprobe.d/nvidia-installer-disable-nouveau.conf /root"
    back = "mv /root/nvidia-installer-disable-nouveau.conf /etc/modprobe.d"
    assert _on(v100, f"{chosen} && {gone} && dracut -f --kver {OLDER} && {back}") == "0"
    nodes.recreate(v100)
    assert "nouveau" in _on(v100, "lsmod")
    assert _on(v100, "modprobe nvidia") == (
        "1 modprobe: ERROR: could not insert 'nvidia': No such device"
    )
    assert _on(v100, f"dracut -f --kver {OLDER}") == "0"
    nodes.recreate(v100)
    assert _on(v100, "cat /sys/module/nvidia/version") == "0 535.154.05"


def test_a_node_with_fewer_rights_has_its_driver_too(v100: str) -> None:
    """Its kernel loads modules, independent of the container's rights."""
    assert _on(v100, f"grubby --set-default /boot/vmlinuz-{OLDER}") == "0"
    nodes.recreate(v100, cap_drop=["SYS_ADMIN"])
    assert _on(v100, "modprobe -r nvidia && modprobe nvidia && nvidia-smi -L").startswith("0 GPU 0")

"""The driver on nodes: names of its sources, a boot without it, builds that were cut off."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from gpu_node.lab import nodes, roster
from tests.e2e.conftest import CONVERGED, WriteInventory, others_off
from tests.e2e.on_lab import (
    MANAGED,
    assert_at_rest,
    converge,
    drift,
    on,
)

pytestmark = pytest.mark.lab

OLD, NEW = "3.10.0-1160.71.1.el7.x86_64", "3.10.0-1160.119.1.el7.x86_64"
VERSION = "535.154.05"
SOURCE = f"/usr/src/nvidia-{VERSION}/nvidia.c"


def only_driver(written: str, **settings: object) -> str:
    """Change an inventory to one that manages the driver and nothing else."""
    file = Path(written).with_suffix(".yml")
    cluster = yaml.safe_load(file.read_text())
    ssh, driver = cluster["defaults"]["ssh"], cluster["defaults"]["driver"]
    cluster["defaults"] = {"ssh": ssh, "driver": {**driver, **settings}}
    cluster["defaults"]["checks"] = others_off(cluster)
    file.write_text(yaml.safe_dump(cluster))
    return written


@pytest.fixture
def site(inventory: WriteInventory) -> str:
    """The lab's inventory, of which the driver is managed alone."""
    return only_driver(inventory({}))


@pytest.fixture
def healthy(converged_once: None) -> None:
    """Both nodes are converged; a test may break them."""
    nodes.put_back(MANAGED, CONVERGED)


def version_of(node: str, kernel: str) -> str:
    """Return modinfo's output for a kernel's module; empty if it has none."""
    return on(node, f"modinfo -k {kernel} -F version nvidia 2>/dev/null || :").strip()


@pytest.mark.lab_slow
def test_an_ssh_user_without_sbin_in_its_path(healthy: None, site: str) -> None:
    """modinfo and dkms are in sbin: a user with sudo, and another PATH, gets the same report."""
    key = roster.CLIENT_KEY.with_suffix(".pub").read_text().strip()
    for node in MANAGED:
        on(
            node,
            "useradd -m -s /bin/bash ops; echo 'ops ALL=(ALL) NOPASSWD: ALL' >/etc/sudoers.d/ops",
        )
        on(node, f"mkdir -p ~ops/.ssh && echo '{key}' >~ops/.ssh/authorized_keys")
        on(node, "chown -R ops: ~ops; chmod 700 ~ops/.ssh")
    file = Path(site).with_suffix(".yml")
    cluster = yaml.safe_load(file.read_text())
    cluster["defaults"]["ssh"].update(user="ops", sudo=True, mesh=False)
    file.write_text(yaml.safe_dump(cluster))
    assert drift(site).json["summary"]["ok"] == len(MANAGED)
    on("v100-01", "modprobe -r nvidia")
    done = converge(site)
    assert done.code == 0, done.err
    assert on("v100-01", "cat /sys/module/nvidia/version").strip() == VERSION


@pytest.mark.lab_slow
def test_debians_name_of_the_module(healthy: None, site: str) -> None:
    """Its packages call sources and file nvidia-current; the module is nvidia all the same."""
    current = f"/usr/src/nvidia-current-{VERSION}"
    on("v100-01", f"dkms remove nvidia/{VERSION} --all >/dev/null")
    on("v100-01", f"mv {SOURCE.rpartition('/')[0]} {current}")
    named = 's/^PACKAGE_NAME=.*/PACKAGE_NAME="nvidia-current"/'
    on("v100-01", f"sed -i '{named}' {current}/dkms.conf")
    on("v100-01", f"echo 'DEST_MODULE_NAME[0]=\"$PACKAGE_NAME\"' >>{current}/dkms.conf")
    done = converge(site)
    assert done.code == 0, done.err
    for kernel in (OLD, NEW):
        asked = f"modinfo -k {kernel} -F version nvidia-current"
        assert on("v100-01", asked).strip() == VERSION
    assert_at_rest(site, "v100-01")


def test_no_reboot_into_a_kernel_without_the_driver(healthy: None, site: str) -> None:
    """The next kernel has no module, and nothing to build it from: not even when it is allowed."""
    on("v100-01", f"dkms uninstall -m nvidia -v {VERSION} -k {NEW} >/dev/null")
    on("v100-01", f"mv /usr/src/nvidia-{VERSION} /root/; grubby --set-default /boot/vmlinuz-{NEW}")
    on("v100-01", "echo 535.129.03 >/sys/module/nvidia/version")
    done = converge(site, "--data", "reboot=true", "--limit", "v100-01")
    assert done.code == 1
    assert not any("Reboot" in name for name in done.executed)


@pytest.mark.lab_slow
def test_a_module_that_is_not_on_the_disk(healthy: None, site: str) -> None:
    """The power failed after dkms had built it: the files are there, and empty."""
    kept = f"/var/lib/dkms/nvidia/{VERSION}/{NEW}/x86_64/module/*"
    on("v100-01", f"for each in {kept} $(modinfo -k {NEW} -n nvidia); do : >$each; done")
    done = converge(site)
    assert done.code == 0, done.err
    assert version_of("v100-01", NEW) == VERSION


@pytest.mark.lab_slow
def test_a_running_kernel_without_headers_in_any_repository(healthy: None, site: str) -> None:
    """Its headers are not available: that is reported, and no other kernel's are installed."""
    on("v100-01", f"rpm -e kernel-devel-{NEW}; rm -rf /usr/src/kernels/{NEW}")
    on("v100-01", f"dkms uninstall -m nvidia -v {VERSION} -k {NEW} >/dev/null")
    on("v100-01", "sed -i 's/^enabled.*/enabled=0/; /^baseurl/a enabled=0' /etc/yum.repos.d/*Base*")
    done = converge(site)
    assert done.code == 1
    assert f"no kernel-devel-{NEW} in the repositories" in done.err
    assert on("v100-01", "rpm -q kernel-devel").split() == [f"kernel-devel-{OLD}"]
    assert version_of("v100-01", OLD) == VERSION

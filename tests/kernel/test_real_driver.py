"""NVIDIA's own driver, of Debian's packages: installed by the deploy, built by dkms, and booted.

In the first part stand-ins are left of a kernel (lab/kernel/native.sh): the GPUs on the PCI bus,
the release that uname prints, a module that is loaded. The second part boots the disk: a real
kernel, and no GPU. The tests are in the order of the story. What is true is asked of dpkg, dkms,
modinfo and dmesg.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from gpu_node.facts.areas import AREAS
from gpu_node.lab import roster
from gpu_node.lab.kernel import machine as virtual
from gpu_node.lab.kernel import native, saved
from gpu_node.lab.kernel.machine import Machine
from tests.kernel.conftest import NAME
from tests.kernel.products import deploy, findings
from tests.lab_errors import end_the_lane

# Other releases have NVIDIA's driver in packages of other names and versions: none was tried, and
# what their deploy would do is not known (docs/explanation/systems.md). The lane prints the line.
pytestmark = [
    pytest.mark.kernel_slow,
    pytest.mark.skipif(
        f"VERSION_CODENAME={native.SUITE}" not in Path("/etc/os-release").read_text(),
        reason="NVIDIA's own driver was tried with the packages of Debian 12 alone",
    ),
]
PACKAGES = ["nvidia-kernel-dkms", "nvidia-smi", "libcuda1"]
INSTALL = "DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends install"
HELD = "apt-mark showhold | xargs dpkg-query -W -f '${Package} ${Version}\\n'"


class Node(NamedTuple):
    """The machine, its inventory, the oldest version that apt has and the one that it prefers."""

    machine: Machine
    inventory: str
    wanted: str
    newest: str


@pytest.fixture(scope="module")
def image(built: None) -> Iterator[Path]:
    """A copy of the lane's disk."""
    with native.copied() as image:
        yield image


@pytest.fixture(scope="module")
def machine(image: Path) -> Iterator[Machine]:
    """The machine, which is powered off."""
    with end_the_lane():
        claimed = virtual.claim(NAME)
    yield claimed
    claimed.remove()


@pytest.fixture(scope="module")
def running(machine: Machine, image: Path) -> Iterator[ExitStack]:
    """What keeps the disk running without its kernel; a test closes it to boot."""
    with ExitStack() as stack:
        stack.enter_context(native.running(machine, image, machine.kernels.first))
        yield stack


@pytest.fixture(scope="module")
def node(machine: Machine, running: ExitStack, tmp_path_factory: pytest.TempPathFactory) -> Node:
    """A node without a driver, for which the inventory wants the oldest that apt has."""
    asked = f"apt-cache madison {PACKAGES[0]} | cut -d'|' -f2 | tr -d ' '"
    newest, *_, oldest = machine.read(asked).split()
    wanted = oldest.partition("-")[0]
    folder = tmp_path_factory.mktemp("inventory")
    ssh = {"user": "root", "port": machine.port, "key": str(machine.key)}
    cluster = {
        "cluster": "kernel",
        "defaults": {
            "ssh": {**ssh, "known_hosts": str(machine.known_hosts)},
            "driver": {"version": wanted, "packages": {"apt": PACKAGES}},
            "checks": {area: False for area in AREAS if area != "driver"},
        },
        "groups": {"v100": {}},
        "hosts": {machine.name: {"address": machine.address, "group": "v100"}},
    }
    (folder / "kernel.yml").write_text(yaml.safe_dump(cluster))
    (folder / "kernel.py").write_text((roster.REPOSITORY / "inventories" / "lab.py").read_text())
    return Node(machine, str(folder / "kernel.py"), wanted, newest.partition("-")[0])


def judged(node: Node) -> dict[str, dict[str, Any]]:
    """The report's findings about the driver, by rule."""
    found = findings(node.inventory)
    return {rule: each for rule, each in found.items() if rule.startswith("driver.")}


def errors(node: Node) -> set[str]:
    """The rules of errors; NVIDIA's own nvidia-smi finds no driver in this machine's kernel."""
    return {rule for rule, each in judged(node).items() if each["severity"] == "error"}


def test_a_server_without_a_driver(node: Node) -> None:
    """There are several versions, of which apt does not prefer the wanted one."""
    assert node.wanted != node.newest
    found = judged(node)
    assert found.keys() == {"driver.not-installed"}
    assert found["driver.not-installed"]["fixable"]


def test_the_deploy_installs_exactly_the_wanted_version(node: Node) -> None:
    """dpkg has all packages of that version, held; dkms built its module for the kernel."""
    done = deploy(node.inventory)
    assert errors(node) == {"driver.smi-fails"}, done.err
    held = dict(line.split() for line in node.machine.read(HELD).splitlines())
    assert held.keys() >= {*PACKAGES, "libnvidia-ml1", "nvidia-alternative"}
    assert {version.partition("-")[0] for version in held.values()} == {node.wanted}
    assert node.machine.read("dpkg --audit") == ""
    kernel = node.machine.kernels.first
    assert f"{kernel}, x86_64: installed" in node.machine.read("dkms status nvidia-current")
    asked = f"modinfo -k {kernel} -F version nvidia-current"
    assert node.machine.read(asked) == node.wanted


def test_a_second_kernel_without_headers(node: Node) -> None:
    """It boots next: the report names it, the deploy installs its headers, and dkms builds."""
    machine, kernel = node.machine, node.machine.kernels.update
    machine.read("grub-editenv /boot/grub/grubenv unset next_entry")
    headers = f"dpkg-query -W -f '${{db:Status-Status}}' linux-headers-{kernel}"
    assert machine.run(headers).stdout != "installed"
    found = judged(node)
    assert found["driver.headers-missing"]["subject"] == kernel
    assert found["driver.next-boot"]["subject"] == kernel
    done = deploy(node.inventory)
    assert errors(node) == {"driver.smi-fails"}, done.err
    assert machine.read(headers) == "installed"
    assert machine.read("dkms status nvidia-current | grep -c ': installed'") == "2"
    assert machine.read(f"modinfo -k {kernel} -F version nvidia-current") == node.wanted


def test_the_daemon_is_installed(node: Node) -> None:
    """nvidia-persistenced, which Debian has in one version, with the library of the module's."""
    version = node.machine.read("dpkg-query -W -f '${Version}' nvidia-smi")
    node.machine.read(f"{INSTALL} nvidia-persistenced libnvidia-cfg1={version}")
    assert errors(node) == {"driver.smi-fails"}


def test_a_kernel_without_a_gpu(node: Node, running: ExitStack, image: Path) -> None:
    """The disk boots into that kernel, which has the module and refuses it."""
    running.close()
    machine = node.machine
    machine.boot(saved.WAITING, image)
    assert machine.read("uname -r") == machine.kernels.update
    assert machine.read("modinfo -F version nvidia-current") == node.wanted
    tried = machine.run("modprobe nvidia")
    assert tried.returncode != 0 and "No such device" in tried.stderr
    assert "NVRM: No NVIDIA GPU found" in machine.read("dmesg")
    daemon = "systemctl show -p SubState --value nvidia-persistenced"
    assert machine.read(daemon) != "running"
    assert errors(node) == {"driver.no-gpu"}


def test_the_library_is_updated_alone(node: Node, image: Path) -> None:
    """Only the module's package is held: apt replaces the library, and the module does not fit."""
    machine = node.machine
    machine.cut()
    with native.running(machine, image, machine.kernels.update):
        machine.read("modprobe nvidia")
        machine.read("apt-mark showhold | xargs -r apt-mark unhold")
        machine.read("apt-mark hold nvidia-kernel-dkms")
        machine.read(f"{INSTALL} libnvidia-ml1")
        library = machine.read("readlink -f /usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1")
        assert library.endswith(f".so.{node.newest}")
        assert machine.read("modinfo -k $(uname -r) -F version nvidia-current") == node.wanted
        found = judged(node)
        mismatch = found["driver.library-mismatch"]
        assert mismatch["found"] == f"module {node.wanted}, library {node.newest}"

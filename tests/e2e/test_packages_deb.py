"""libnccl debs of another origin: the matched ones by apt, in one transaction, and on hold."""

from __future__ import annotations

import pytest

from gpu_node.lab import disks, nodes, roster
from gpu_node.lab.machine import as_root
from gpu_node.lab.mirror import directory
from tests.e2e.conftest import WriteInventory, let_in, nccl_alone
from tests.e2e.on_lab import DEPLOY, assert_at_rest, changed, converge, dry, manifest, on, run

pytestmark = pytest.mark.lab

# Used by these tests alone, so that they run beside those of the two other nodes.
NODE = "v100-02"
KEPT = "packages-deb"
VERSION = "2.18.1-1+cuda12.1"
DEBS = "http://10.168.144.2/deb/"
MATCHED = {"libnccl2": VERSION, "libnccl-dev": VERSION}


@pytest.fixture(scope="module")
def kept() -> None:
    """The node as found, with the distribution's own libnccl2, and our key authorised."""
    nodes.reset([NODE])
    let_in(NODE)
    for name in ("distribution", "deb"):
        as_root(["cp", "-r", directory() / name, disks.root(NODE) / "root" / name])
    disks.keep(NODE, KEPT)


@pytest.fixture
def path(kept: None, inventory: WriteInventory) -> str:
    """The node as it was kept, and an inventory that manages only its packages."""
    nodes.put_back([NODE], KEPT)
    return _inventory(inventory)


def _inventory(inventory: WriteInventory, version: str = "2.18.1+cuda12.1") -> str:
    repository = {"url": DEBS, "key": str(roster.REPOSITORY_KEY)}
    settings = {"version": version, "packages": True, "repository": repository}
    return nccl_alone(inventory({}), NODE, **settings)


def _debs() -> dict[str, str]:
    form = "${Package} ${Version} ${db:Status-Status}\\n"
    packages = on(NODE, f"dpkg-query -W -f '{form}' '*nccl*'").splitlines()
    rows = [line.split() for line in packages]
    return {name: version for name, version, status in rows if status == "installed"}


def _installed(*files: str) -> None:
    on(NODE, f"cd /root && dpkg -i {' '.join(files)} 2>&1")


def test_the_matched_debs(path: str) -> None:
    """A downgrade: both at one version, held; exact dry run; then no change."""
    _installed("deb/libnccl2_2.19.3-*.deb")
    before = manifest(NODE)
    plan = dry(path)
    assert changed(before, manifest(NODE)) == set()
    done = converge(path)
    assert (done.code, done.executed) == (0, plan), done.err
    assert f"Install and hold libnccl2, libnccl-dev {VERSION}" in str(plan)
    assert _debs() == MATCHED
    assert on(NODE, "apt-mark showhold").split() == ["libnccl-dev", "libnccl2"]
    assert "2.18.1" in on(NODE, "readlink -f /usr/lib/x86_64-linux-gnu/libnccl.so.2")
    # The repository is there for manual use, and no update installs anything from it.
    assert "Enabled: no" in on(NODE, "cat /etc/apt/sources.list.d/gpu-node-cuda.sources")
    assert_at_rest(path, NODE)


def test_on_hold_at_another_version(path: str) -> None:
    """An administrator's hold is named and stays; with override_locks=true it is replaced."""
    _installed("deb/libnccl2_2.14.3-*.deb")
    on(NODE, "apt-mark hold libnccl2")
    before = manifest(NODE)
    done = converge(path)
    assert done.code == 1
    assert "nccl.package-locked: libnccl2: is on hold at 2.14.3-1+cuda11.7" in done.err
    assert "--data override_locks=true" in done.err
    assert changed(before, manifest(NODE)) == set()
    assert converge(path, "--data", "override_locks=true").code == 0
    assert _debs() == MATCHED
    assert on(NODE, "apt-mark showhold").split() == ["libnccl-dev", "libnccl2"]
    assert f"libnccl2 {VERSION} " in on(NODE, "cat /var/lib/gpu-node/holds")


def test_a_package_that_needs_another_version(path: str) -> None:
    """It is named, with the command for it, before the run and in it, and nothing is removed."""
    _installed("distribution/site-nccl-app_*.deb")
    before = _debs()
    refused = "apt would remove site-nccl-app: where that is right, run: apt-get"
    assert refused in run("pyinfra", "--dry", "--json", path, DEPLOY).err
    done = converge(path)
    assert done.code == 1
    assert f"gpu-node: libnccl: {refused}" in done.err
    assert _debs() == before


@pytest.mark.lab_slow
def test_killed_in_the_middle(path: str) -> None:
    """dpkg has unpacked and not configured: the next run finishes that, and then its own work."""
    on(
        NODE,
        "mv /usr/bin/dpkg /usr/bin/dpkg.real; cat >/usr/bin/dpkg <<'END'\n#!/bin/sh\n"
        'case "$*" in *--configure*) kill -9 0 ;; esac\nexec /usr/bin/dpkg.real "$@"\nEND\n'
        "chmod 755 /usr/bin/dpkg",
    )
    assert converge(path).code == 1
    on(NODE, "mv -f /usr/bin/dpkg.real /usr/bin/dpkg")
    assert on(NODE, "dpkg --audit") != ""
    assert on(NODE, "ls /usr/lib/x86_64-linux-gnu/libnccl.so.2.*") != ""
    done = converge(path)
    assert done.code == 0, done.err
    assert (_debs(), on(NODE, "dpkg --audit")) == (MATCHED, "")

"""libnccl rpms in two versions: one version, in one transaction, held, and nothing else touched."""

from __future__ import annotations

import pytest

from gpu_node.lab import disks, nodes, roster
from tests.e2e.conftest import WriteInventory, nccl_alone
from tests.e2e.on_lab import assert_at_rest, changed, converge, drift, dry, manifest, on

pytestmark = pytest.mark.lab

NODE = "a100-01"
KEPT = "packages-rpm"
VERSION = "2.18.1-1+cuda12.1"
RPMS = "http://10.168.144.2/rpm/"
MATCHED = {f"{name}-{VERSION}.x86_64" for name in ("libnccl", "libnccl-devel", "libnccl-static")}
PLUGIN = "libnccl-rdma-sharp-plugin-2.5.0-1.x86_64"
FOUND = {
    *("libnccl-2.14.3-1+cuda11.7.x86_64", "libnccl-2.19.3-1+cuda12.2.x86_64"),
    *("libnccl-devel-2.19.3-1+cuda12.2.x86_64", PLUGIN),
}
# Not part of these tests: what the driver is built with and for.
BESIDES = {
    *("kernel-3.10.0-1160.71.1.el7.x86_64", "kernel-3.10.0-1160.119.1.el7.x86_64"),
    *("kernel-devel-3.10.0-1160.71.1.el7.x86_64", "dkms-3.0.10-1.el7.noarch"),
}
# What the repository's own entry and the lock are written to, and rpm's database.
OURS = (
    *("etc/yum.repos.d", "etc/pki", "etc/dnf/plugins/versionlock.list", "etc/ld.so.cache"),
    *("usr/include", "usr/lib64", "var/lib/rpm", "var/lib/dnf", "var/lib/gpu-node"),
    "var/backups",
)


@pytest.fixture(scope="module")
def kept() -> None:
    """The node as found: two versions of one rpm, and another vendor's beside them."""
    nodes.reset([NODE])
    disks.keep(NODE, KEPT)


@pytest.fixture
def path(kept: None, inventory: WriteInventory) -> str:
    """The node as found, and an inventory that manages only its packages."""
    nodes.put_back([NODE], KEPT)
    return _inventory(inventory)


def _inventory(
    inventory: WriteInventory,
    version: str = "2.18.1+cuda12.1",
    key: str = str(roster.REPOSITORY_KEY),
) -> str:
    repository = {"url": RPMS, "key": key}
    settings = {"version": version, "packages": True, "repository": repository}
    return nccl_alone(inventory({}), NODE, **settings)


def _rpms() -> set[str]:
    there = {name for name in on(NODE, "rpm -qa").split() if not name.startswith("gpg-pubkey")}
    assert there >= BESIDES
    return there - BESIDES


def _is_ours(path: str) -> bool:
    """Whether a path is one that the deploy writes, or a folder above it."""
    return path.startswith(OURS) or any(each.startswith(f"{path}/") for each in OURS)


def _held() -> str:
    return on(NODE, "grep -v '^#' /etc/dnf/plugins/versionlock.list || true")


def test_two_versions_become_the_matched_one_by_yum(path: str) -> None:
    """Exactly the three packages, the plugin unchanged; exact dry run; then unchanged, and held."""
    on(NODE, "rm /usr/bin/yum && cp /usr/bin/dnf-3 /usr/bin/yum && rm /usr/bin/dnf*")
    assert _rpms() == FOUND
    before, plugin = manifest(NODE), on(NODE, f"rpm -qi {PLUGIN}")
    found = {each["rule"]: each for each in drift(path).json["hosts"][NODE]["findings"]}
    assert found["nccl.duplicate-packages"]["found"] == "2.14.3-1+cuda11.7, 2.19.3-1+cuda12.2"
    plan = dry(path)
    assert changed(before, manifest(NODE)) == set()
    done = converge(path)
    assert (done.code, done.executed) == (0, plan), done.err
    assert f"Install and hold libnccl, libnccl-devel, libnccl-static {VERSION}" in str(plan)
    assert _rpms() == {*MATCHED, PLUGIN}
    assert on(NODE, "rpm -V libnccl libnccl-devel libnccl-static || true") == ""
    assert on(NODE, f"rpm -qi {PLUGIN}") == plugin
    assert on(NODE, "readlink /usr/lib64/libnccl.so.2").strip() == "libnccl.so.2.18.1"
    assert [each for each in changed(before, manifest(NODE)) if not _is_ours(each)] == []
    assert [line.split("-0:")[0] for line in _held().split()] == [
        *("libnccl", "libnccl-devel", "libnccl-static")
    ]
    assert_at_rest(path, NODE)


def test_what_the_repository_does_not_have(path: str, inventory: WriteInventory) -> None:
    """The versions it has are named, and no package is touched."""
    done = converge(_inventory(inventory, "2.20.5+cuda12.4"))
    assert done.code == 1
    assert "no libnccl-2.20.5-1+cuda12.4.x86_64 in http://10.168.144.2/rpm/" in done.err
    assert "there is: 2.14.3-1+cuda11.7, 2.18.1-1+cuda12.0, 2.18.1-1+cuda12.1" in done.err
    assert _rpms() == FOUND


@pytest.mark.lab_slow
def test_a_package_that_needs_another_version(path: str) -> None:
    """rpm refuses, its reason is reported, and nothing is removed for it."""
    on(NODE, "curl -s -O http://10.168.144.2/rpm/site-nccl-app-1.0-1.x86_64.rpm "
       "&& rpm -i --nosignature site-nccl-app-1.0-1.x86_64.rpm")  # fmt: skip
    done = converge(path)
    assert done.code == 1
    assert "libnccl = 2.19.3-1+cuda12.2 is needed by (installed) site-nccl-app" in done.err
    assert _rpms() == {*FOUND, "site-nccl-app-1.0-1.x86_64"}


def test_a_package_that_is_not_signed(path: str, inventory: WriteInventory) -> None:
    """Without the key nothing is installed, unless the inventory has `unsigned`."""
    strangers = on("v100-01", "export GNUPGHOME=/tmp/g && mkdir -pm 700 /tmp/g && gpg --batch -q "
                   "--passphrase '' --quick-generate-key stranger rsa2048 sign never 2>/dev/null "
                   "&& gpg --batch --armor --export; gpgconf --kill all")  # fmt: skip
    file = roster.REPOSITORY_KEY.with_name("stranger.asc")
    file.write_text(strangers)
    try:
        done = converge(_inventory(inventory, key=str(file)))
    finally:
        file.unlink()
    assert done.code == 1
    assert "not signed by a key that this node trusts" in done.err
    assert _rpms() == FOUND
    assert converge(_inventory(inventory, key="unsigned")).code == 0
    assert _rpms() == {*MATCHED, PLUGIN}

"""The driver on a bare node of the apt family: what is refused, and its packages by one run."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
import yaml

from gpu_node.lab import nodes, roster
from tests.e2e.conftest import WriteInventory, let_in, others_off
from tests.e2e.on_lab import assert_at_rest, changed, converge, drift, dry, manifest, on

pytestmark = pytest.mark.lab

BARE = "v100-02"
VERSION = "535.154.05"


@pytest.fixture
def bare(inventory: WriteInventory) -> Path:
    """The cluster file of v100-02 alone: two V100 by their PCI ids, and no driver at all."""
    nodes.reset([BARE])
    let_in(BARE)
    file = Path(inventory({})).with_suffix(".yml")
    cluster = yaml.safe_load(file.read_text())
    ssh, shm = cluster["defaults"]["ssh"], cluster["defaults"]["shm"]
    cluster["defaults"] = {"ssh": ssh, "shm": shm}
    cluster["defaults"]["checks"] = others_off(cluster)
    del cluster["groups"]["v100"]["gpu"]
    cluster["hosts"] = {BARE: {"address": roster.NODES[BARE].address, "group": "v100"}}
    file.write_text(yaml.safe_dump(cluster))
    return file


PACKAGES = ["nvidia-dkms-535", "libnvidia-compute-535", "nvidia-utils-535"]


def want(file: Path, version: str, packages: list[str] | None = None) -> str:
    """The inventory that wants this driver as well, by these packages where there is none."""
    cluster = yaml.safe_load(file.read_text())
    cluster["defaults"]["driver"] = {"version": version}
    if packages:
        cluster["defaults"]["driver"].update(persistence=True, packages={"apt": packages})
    cluster["defaults"]["checks"] = others_off(cluster)
    file.write_text(yaml.safe_dump(cluster))
    return str(file.with_suffix(".py"))


def test_a_driver_that_leaves_a_v100_alone_is_refused(bare: Path) -> None:
    """Known by its PCI id alone: nothing of a driver is changed; the other areas are repaired."""
    site = want(bare, "590")
    found = {each["rule"]: each for each in drift(site).json["hosts"][BARE]["findings"]}
    assert found["driver.unsupported-gpu"]["subject"] == "Tesla V100-PCIE-32GB"
    assert "shm.too-small" in found
    before = manifest(BARE)
    done = converge(site)
    assert done.code == 1
    assert "driver.unsupported-gpu" in done.err and "at most branch 580" in done.err
    paths = changed(before, manifest(BARE))
    assert "etc/fstab" in paths
    assert {path for path in paths if not path.startswith("var/backups")} == {"etc/fstab"}
    assert versions() == {}


def versions() -> dict[str, str]:
    """The driver's packages as dpkg has them."""
    form = "${Package} ${Version} ${db:Status-Status}\\n"
    packages = on(BARE, f"dpkg-query -W -f '{form}' '*nvidia*' 2>/dev/null || :").splitlines()
    rows = [line.split() for line in packages]
    return {row[0]: row[1] for row in rows if row[-1] == "installed"}


def assert_driven(version: str) -> None:
    """The module is of that version, is loaded, and nvidia-smi shows both cards."""
    kernel = shlex.quote(on(BARE, "uname -r").strip())
    assert on(BARE, f"modinfo -k {kernel} -F version nvidia").strip() == version
    assert on(BARE, "cat /sys/module/nvidia/version").strip() == version
    asked = "nvidia-smi --query-gpu=driver_version,persistence_mode --format=csv,noheader"
    assert on(BARE, asked).splitlines() == [f"{version}, Enabled"] * 2


def test_the_whole_driver_by_one_run(bare: Path) -> None:
    """Nothing was there: packages of exactly the version, dkms, headers, module, loaded, held."""
    site = want(bare, VERSION, PACKAGES)
    found = {each["rule"]: each for each in drift(site).json["hosts"][BARE]["findings"]}
    assert found["driver.not-installed"]["fixable"]
    before = manifest(BARE)
    plan = dry(site)
    assert changed(before, manifest(BARE)) == set()
    done = converge(site)
    # What the packages' own scripts have dkms build is built when its turn comes.
    assert (done.code, done.executed.keys()) == (0, plan.keys()), done.err
    assert versions() == dict.fromkeys(PACKAGES, f"{VERSION}-0ubuntu1")
    assert set(on(BARE, "apt-mark showhold").split()) == set(PACKAGES)
    assert_driven(VERSION)
    assert_at_rest(site, BARE)
    nodes.recreate(BARE)
    assert on(BARE, "cat /sys/module/nvidia/version").strip() == VERSION


@pytest.mark.lab_slow
def test_a_branch_takes_two_runs(bare: Path) -> None:
    """Its newest comes with the first, which says so; the second builds the module for it."""
    site = want(bare, "535", PACKAGES)
    done = converge(site)
    assert done.code == 1
    assert "found only after this repair, run the deploy again" in done.err
    assert versions() == dict.fromkeys(PACKAGES, "535.183.01-0ubuntu1")
    assert converge(site).code == 0
    assert_driven("535.183.01")
    assert_at_rest(site, BARE)

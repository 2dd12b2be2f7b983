"""Fixtures of the tests on real kernels: one machine a module, and its inventory."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
import yaml

from lab import roster
from lab.kernel import machine as virtual
from lab.kernel.machine import Machine
from tests.kernel import products

NAME = "k-01"
SHOWN = 60


@pytest.fixture(scope="session")
def updated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where a disk is kept whose update was installed and not booted; there may be none yet."""
    file = tmp_path_factory.mktemp("kept") / "updated.raw"
    yield file
    file.unlink(missing_ok=True)


@pytest.fixture(scope="module")
def machine(request: pytest.FixtureRequest, updated: Path) -> Iterator[Machine]:
    """Boot one machine for a module's tests: a boot costs half a minute where it is emulated.

    A module that is about what was updated boots from the kept disk; where there is none it is
    updated first.
    """
    is_updated = getattr(request.module, "UPDATED", False)
    running = virtual.start(NAME, updated if is_updated and updated.exists() else None)
    if is_updated and not updated.exists():
        running.read(products.update(running), products.INSTALLING)
        running.reboot()
    yield running
    running.remove()


@pytest.fixture(scope="module")
def inventory(machine: Machine, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the path of an inventory of the machine: its driver, shared memory and limits."""
    folder = tmp_path_factory.mktemp("inventory")
    ssh = {"user": "root", "port": machine.port, "key": str(roster.CLIENT_KEY)}
    cluster = {
        "cluster": "kernel",
        "defaults": {
            "ssh": {**ssh, "known_hosts": str(machine.known_hosts)},
            "driver": {"version": "535"},
            # More than the half of its memory that it has without a line of fstab.
            "shm": {"size": "600M"},
            "limits": {"nofile": 23456},
        },
        "groups": {"v100": {"gpu": {"model": "V100", "count": 2}}},
        "hosts": {machine.name: {"address": machine.address, "group": "v100"}},
    }
    (folder / "kernel.yml").write_text(yaml.safe_dump(cluster))
    (folder / "kernel.py").write_text((roster.REPOSITORY / "inventories" / "lab.py").read_text())
    return str(folder / "kernel.py")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show with a failure what the machine's console said last."""
    report = yield
    console = virtual.home(NAME) / "console.log"
    if report.failed and console.is_file():
        said = console.read_text(errors="replace").splitlines()[-SHOWN:]
        report.sections.append((f"the console of {NAME}", "\n".join(said)))
    return report

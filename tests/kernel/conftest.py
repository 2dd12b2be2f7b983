"""Fixtures of the tests on real kernels: one machine a module, and its inventory."""

from __future__ import annotations

from collections.abc import Generator, Iterator

import pytest

from gpu_node.lab.kernel import machine as virtual
from gpu_node.lab.kernel import ready
from gpu_node.lab.kernel.machine import Machine
from tests.kernel.products import write_inventory
from tests.lab_errors import end_the_lane

NAME = "k-01"
SHOWN = 60


@pytest.fixture(scope="session")
def built() -> None:
    """Leave the disks in the cache; where that fails, the lane ends with one line."""
    with end_the_lane():
        ready.build()


@pytest.fixture(scope="module")
def machine(request: pytest.FixtureRequest, built: None) -> Iterator[Machine]:
    """Start one machine for a module's tests, in the state that the module names."""
    with end_the_lane():
        running = ready.start(NAME, request.module.STATE)
    yield running
    running.remove()


@pytest.fixture(scope="module")
def inventory(machine: Machine, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the path of an inventory of the machine: its driver, shared memory and limits."""
    return write_inventory(machine, tmp_path_factory.mktemp("inventory"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the end of the machine's console log to a failure."""
    report = yield
    console = virtual.home(NAME) / "console.log"
    if report.failed and console.is_file():
        log = console.read_text(errors="replace").splitlines()[-SHOWN:]
        report.sections.append((f"the console of {NAME}", "\n".join(log)))
    return report

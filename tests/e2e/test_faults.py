"""Every fault of the catalogue: reported by its rule alone, repaired, and nothing else done."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatch

import pytest

from lab import disks, faults, nodes
from tests.e2e.conftest import WriteInventory
from tests.e2e.running import (
    MANAGED,
    changed,
    converge,
    drift,
    dry,
    manifest,
)

pytestmark = pytest.mark.lab

CATALOGUE = faults.catalogue()
# Nodes that are not converged any more: the fault of the test before was not to be repaired.
_broken: set[str] = set()


@pytest.fixture(scope="module")
def converged() -> None:
    """All nodes were converged once, and their disks kept like that."""
    nodes.reset(MANAGED)
    assert converge().code == 0
    for node in MANAGED:
        disks.keep(node)


@pytest.fixture
def healthy(converged: None) -> None:
    """All nodes are converged."""
    nodes.put_back(sorted(_broken))
    _broken.clear()


def test_there_are_enough_faults() -> None:
    """The catalogue was found, and has a fault for each rule and a control."""
    assert len(CATALOGUE) >= 15
    assert [fault for fault in CATALOGUE.values() if not fault.expect]


@pytest.mark.parametrize("name", CATALOGUE)
def test_a_fault(name: str, healthy: None, inventory: WriteInventory) -> None:
    """Reported right, dry run exact, repaired or refused, bystanders as before, then no change."""
    fault = CATALOGUE[name]
    path = inventory(fault.inventory, fault.node)
    _broken.add(fault.node)
    faults.inject(fault)
    expected = {(each.node, each.rule, each.fixable) for each in fault.expect}

    before = {node: manifest(node) for node in MANAGED}
    with ThreadPoolExecutor() as beside:
        seen, planned = beside.submit(drift, path), beside.submit(dry, path)
        report, plan = seen.result(), planned.result()
    assert _findings(report.json) == expected
    assert report.code == _exit_code(expected)
    result = converge(path)
    assert plan == result.executed
    assert (result.code == 0) == (fault.repaired or not expected), result.err
    assert set(result.failed) <= {fault.node}
    assert faults.holds_afterwards(fault) == ""
    _only_expected_paths_changed(fault, before)
    if fault.repaired:
        _second_run_is_clean(path)
        _broken.discard(fault.node)


def _findings(report: dict[str, dict[str, dict[str, list[dict[str, object]]]]]) -> set[object]:
    return {
        (node, finding["rule"], finding["fixable"])
        for node, host in report["hosts"].items()
        for finding in host["findings"]
    }


def _exit_code(expected: set[tuple[str, str, bool]]) -> int:
    if any(rule.endswith(".unreadable") for _, rule, _ in expected):
        return 1
    return 2 if expected else 0


def _only_expected_paths_changed(fault: faults.Fault, before: dict[str, dict[str, str]]) -> None:
    for node in MANAGED:
        paths = {f"/{path}" for path in changed(before[node], manifest(node))}
        allowed = fault.changes if node == fault.node else []
        folders = {part for glob in allowed for part in _folders(glob)}
        unexpected = {
            path
            for path in paths - folders
            if not any(fnmatch(path, glob.replace("**", "*")) for glob in allowed)
        }
        assert unexpected == set(), f"{node}: {unexpected}"


def _folders(glob: str) -> list[str]:
    """The directories above an expected path: a new file may bring new ones."""
    parts = glob.strip("/").split("/")[:-1]
    return ["/" + "/".join(parts[: count + 1]) for count in range(len(parts))]


def _second_run_is_clean(path: str) -> None:
    before = {node: manifest(node) for node in MANAGED}
    second = converge(path)
    assert (second.code, second.executed) == (0, {}), second.err
    for node in MANAGED:
        assert changed(before[node], manifest(node)) == set()

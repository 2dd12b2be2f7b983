"""Every fault of the catalogue: its rule alone reports it, it is repaired, nothing else changes."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from fnmatch import fnmatch
from itertools import permutations, zip_longest
from pathlib import Path

import pytest

from gpu_node.lab import faults, nodes
from tests.e2e.conftest import CONVERGED, converge_unless_kept, write_inventory
from tests.e2e.on_lab import (
    MANAGED,
    changed,
    converge,
    converge_and_report,
    drift,
    dry,
    manifest,
)

pytestmark = pytest.mark.faults
INTERRUPTED = " of an interrupted run"
CATALOGUE = faults.catalogue()
# More at once, and a round that fails would be a riddle.
TOGETHER = 3
# What waits to be confirmed is recorded there while a run is at work.
RECORD = "/var/lib/gpu-node/pending"
# Nodes that are not converged: no round has used them yet, or a fault stays on them.
_broken = {*MANAGED}


def _heal() -> None:
    """Have the nodes converged; the first round needs no boot for that."""
    if not converge_unless_kept():
        nodes.put_back(sorted(_broken), CONVERGED)
    _broken.clear()


def test_there_are_enough_faults() -> None:
    """The catalogue was found, and has a fault for each rule and a control."""
    assert len(CATALOGUE) >= 15
    assert [fault for fault in CATALOGUE.values() if not fault.expect]


def _rounds(chosen: Iterable[faults.Fault]) -> list[tuple[faults.Fault, ...]]:
    """Faults of several areas at a time, on two nodes side by side: fewer runs, the same checks.

    Those that stay are on one node, and beside ones that are repaired: pyinfra reports nothing of a
    run in which every host failed.
    """
    rounds: list[tuple[tuple[faults.Fault, ...], ...]] = []
    chosen = list(chosen)
    for mine, theirs in permutations([_groups(chosen, node) for node in MANAGED]):
        staying = [group for group in mine if not all(map(_ends_well, group))]
        repaired = [group for group in theirs if all(map(_ends_well, group))]
        rounds += zip_longest(staying, repaired, fillvalue=())
    rounds += [((fault,), ()) for fault in chosen if fault.shared]
    return [(*left, *right) for left, right in rounds]


def _groups(chosen: Iterable[faults.Fault], node: str) -> list[tuple[faults.Fault, ...]]:
    """The faults of a node in groups, none with two of one area."""
    groups: list[list[faults.Fault]] = []
    for fault in chosen:
        if fault.node != node or fault.shared:
            continue
        fitting = [group for group in groups if _fits(fault, group)]
        if not fitting:
            groups.append([])
        (fitting or groups[-1:])[0].append(fault)
    apart = [(fault,) for group in groups for fault in group if fault.alone and len(group) > 1]
    together = [tuple(fault for fault in group if (fault,) not in apart) for group in groups]
    return [*together, *apart]


def _fits(fault: faults.Fault, group: list[faults.Fault]) -> bool:
    """Whether a fault hides none of a group, and none of them hides it.

    Another fault of the group would end with a container that starts anew.
    """
    together = [*group, fault]
    alone = any(not each.expect or each.unreadable or each.container for each in together)
    alike = len({each.repaired for each in together}) == 1
    parts = [part for each in together for part in (*_areas(each), *each.needs, *each.inventory)]
    return not alone and alike and len(together) <= TOGETHER and len(set(parts)) == len(parts)


def _ends_well(fault: faults.Fault) -> bool:
    return fault.repaired or not (fault.expect or fault.unreadable)


def _areas(fault: faults.Fault) -> set[str]:
    return {each.rule.split(".")[0] for each in fault.expect}


def _name(faults_: tuple[faults.Fault, ...]) -> str:
    return "+".join(fault.name for fault in faults_)


ROUNDS = _rounds(CATALOGUE.values())


def test_each_fault_has_its_round() -> None:
    """No fault is left out, and none is on v100-02, which another lane uses meanwhile."""
    assert sorted(fault.name for each in ROUNDS for fault in each) == sorted(CATALOGUE)


@pytest.mark.parametrize("together", ROUNDS, ids=_name)
def test_faults(together: tuple[faults.Fault, ...], tmp_path: Path) -> None:
    """Reported right, dry run exact, repaired or refused, all else as before, then no change."""
    _heal()
    settings: dict[str, dict[str, object]] = {node: {} for node in MANAGED}
    if not any("ssh" in _areas(fault) for fault in together):
        # Every probe would log in from every node to every node, and find what it always finds.
        settings = {node: {"ssh_mesh": False} for node in MANAGED}
    for each in together:
        for node in each.nodes:
            settings[node].update(deepcopy(each.inventory))  # YAML has no alias then
    path = write_inventory(tmp_path, settings)
    for fault in together:
        _broken.update(fault.nodes)
        faults.inject(fault)
    expected = {(each.node, each.rule, each.fixable) for fault in together for each in fault.expect}
    before = {node: manifest(node) for node in MANAGED}
    lost = any(fault.unreadable for fault in together)
    with ThreadPoolExecutor() as beside:
        seen, planned = beside.submit(drift, path), beside.submit(dry, path, unreadable=lost)
        report, plan = seen.result(), planned.result()
    assert _findings(report.json) == expected, _unexpected(report.json, expected)
    assert report.code == _exit_code(together)
    for fault in together:
        host = report.json["hosts"][fault.node]
        own = [each for each in together if each.node == fault.node]
        assert (host["status"] == "unreadable") == any(map(_is_unreadable, own))
        assert fault.unreadable in (host["error"] or "")
    result = converge_and_report(path)
    failed = _failing(together, report.json)
    # pyinfra has no result of a run in which every host failed.
    if failed != set(MANAGED):
        _as_planned(plan, result.executed, failed)
        assert result.failed == sorted(failed)
    assert (result.code == 0) == (not failed), result.err
    assert [each.says for each in together if each.says not in result.err] == [], result.err
    _only_expected_paths_changed(together, before)
    repaired = {node for fault in together if fault.repaired for node in fault.nodes}
    _second_run_is_clean(path, sorted(repaired))
    for fault in together:
        assert faults.holds_afterwards(fault) == ""
    _broken.difference_update(
        node
        for node in repaired
        if not _is_mounted(node, together) and not _is_otherwise(settings[node])
    )


def _is_otherwise(settings: dict[str, object]) -> bool:
    """Whether a node was converged with another launcher or a held kernel, which would stay."""
    return not settings.keys().isdisjoint(("launcher_kind", "driver_hold_kernel"))


def _is_mounted(node: str, together: tuple[faults.Fault, ...]) -> bool:
    """Whether a node uses another node's directory until it is restored."""
    return any(fault.shared and node in fault.nodes for fault in together)


def _findings(report: dict[str, dict[str, dict[str, list[dict[str, object]]]]]) -> set[object]:
    return {
        (node, finding["rule"], finding["fixable"])
        for node, host in report["hosts"].items()
        for finding in host["findings"]
    }


def _unexpected(
    report: dict[str, dict[str, dict[str, list[dict[str, object]]]]], expected: AbstractSet[object]
) -> list[object]:
    """The findings that no fault explains, in full: for an unreadable one with the reason."""
    return [
        (node, finding)
        for node, host in report["hosts"].items()
        for finding in host["findings"]
        if (node, finding["rule"], finding["fixable"]) not in expected
    ]


def _is_unreadable(fault: faults.Fault) -> bool:
    """Whether the node as a whole, or a part of it, is to be unreadable."""
    return bool(fault.unreadable) or any(each.rule.endswith(".unreadable") for each in fault.expect)


def _failing(
    together: tuple[faults.Fault, ...],
    report: dict[str, dict[str, dict[str, list[dict[str, object]]]]],
) -> set[str]:
    """Return the nodes on which errors remain after a converge: they need manual action."""
    manual_fix = {
        node
        for node, host in report["hosts"].items()
        for finding in host["findings"]
        if finding["severity"] == "error" and not finding["fixable"]
    }
    refused = {
        each.node
        for fault in together
        if not fault.repaired
        for each in fault.expect
        if each.fixable
    }
    return manual_fix | refused | {fault.node for fault in together if fault.unreadable}


def _as_planned(
    plan: dict[str, list[str]], executed: dict[str, list[str]], failed: set[str]
) -> None:
    """What a dry run announces is executed; after a failure an area's later steps are not.

    What an interrupted run left is confirmed before all operations: it is none of them.
    """
    operations = {name: hosts for name, hosts in plan.items() if not name.endswith(INTERRUPTED)}
    assert executed.keys() == operations.keys()
    for name, hosts in operations.items():
        assert set(executed[name]) <= set(hosts)
        assert set(hosts) - set(executed[name]) <= failed, name


def _exit_code(together: tuple[faults.Fault, ...]) -> int:
    if any(_is_unreadable(fault) or fault.exit_code == 1 for fault in together):
        return 1
    return 2 if any(fault.expect and fault.exit_code for fault in together) else 0


def _only_expected_paths_changed(
    together: tuple[faults.Fault, ...], before: dict[str, dict[str, str]]
) -> None:
    for node in before:
        paths = {f"/{path}" for path in changed(before[node], manifest(node))}
        allowed = [glob for fault in together if node in fault.nodes for glob in fault.changes]
        folders = {part for glob in [*allowed, RECORD] for part in _folders(glob)}
        unexpected = {
            path
            for path in paths - folders
            if not any(fnmatch(path, glob.replace("**", "*")) for glob in allowed)
        }
        assert unexpected == set(), f"{node}: {unexpected}"


def _folders(glob: str) -> list[str]:
    """Return the directories above an expected path: a new file may need new ones."""
    parts = glob.strip("/").split("/")[:-1]
    return ["/" + "/".join(parts[: count + 1]) for count in range(len(parts))]


def _second_run_is_clean(path: str, repaired: list[str]) -> None:
    if not repaired:
        return
    before = {node: manifest(node) for node in repaired}
    second = converge(path, *(word for node in repaired for word in ("--limit", node)))
    assert (second.code, second.executed, second.failed) == (0, {}, []), second.err
    for node in repaired:
        assert changed(before[node], manifest(node)) == set()

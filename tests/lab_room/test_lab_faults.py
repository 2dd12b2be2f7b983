"""Fault files: those of the catalogue load; a bad one is refused with the reason."""

from pathlib import Path

import pytest

from gpu_node.drift.engine.registry import RULES
from gpu_node.facts.areas import AREAS
from gpu_node.lab import faults, roster
from gpu_node.lab.errors import LabError

GOOD = """\
summary: The program is not there any more.
node: a100-01
inject: rm /usr/bin/true
expect:
  - {rule: toolchain.cmake-old, node: a100-01, fixable: true}
repaired: true
after: test -x /usr/bin/true
changes: [/usr/bin/true]
"""


def write(directory: Path, text: str) -> Path:
    path = directory / "planted.yml"
    path.write_text(text)
    return path


def test_the_catalogue_loads_and_has_every_area_that_is_repaired() -> None:
    known = faults.catalogue()
    areas = {expected.rule.split(".")[0] for fault in known.values() for expected in fault.expect}
    # The lab's inventory has no workspace: tests/e2e/test_workspace.py has its own.
    repaired = {step for rule in RULES.values() for step in rule.steps}
    without = sorted(repaired - areas - {"workspace"})
    assert not without, f"lab/faults: no fault for area {', '.join(without)}"


def test_the_catalogue_has_a_fault_that_is_none() -> None:
    assert faults.catalogue()["nothing-wrong"].expect == []


def test_expected_rules_exist() -> None:
    """A misspelt id would never be found."""
    known = {*RULES, *(f"{area}.unreadable" for area in AREAS)}
    expected = {each.rule for fault in faults.catalogue().values() for each in fault.expect}
    assert expected <= known


def test_repaired_faults_are_fixable() -> None:
    """A deploy succeeds with a remaining warning, but not with an error."""
    for fault in faults.catalogue().values():
        listed = [each for each in fault.expect if not each.remains]
        stays = [each.rule for each in listed if not each.fixable]
        warnings = [each for each in stays if each in RULES and RULES[each].severity == "warning"]
        assert not fault.repaired or stays == warnings, fault.name
        assert not fault.repaired or not fault.expect or len(stays) < len(fault.expect), fault.name


def test_a_good_file(tmp_path: Path) -> None:
    fault = faults.load(write(tmp_path, GOOD))
    assert (fault.name, fault.changes) == ("planted", ["/usr/bin/true"])
    assert "Expect toolchain.cmake-old on a100-01." in fault.forecast()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("sumary: x\n", "unknown key 'sumary'; a fault has: summary, node"),
        ("repaired: maybe\n", "repaired: "),
        ("node: h100-01\n", "no node 'h100-01'; known: a100-01"),
        ("name: other\n", "the file's name is the name"),
        ("changes: [\n", "not YAML: "),
        ("expect: [{rule: shm, node: a100-01, fixable: true}]\n", "expect.0.rule: "),
        ("container: {cap_drop: []}\n", "container.cap_drop: "),
    ],
)
def test_a_bad_file_is_refused_with_the_reason(tmp_path: Path, change: str, message: str) -> None:
    with pytest.raises(LabError) as caught:
        faults.load(write(tmp_path, GOOD + change))
    assert str(caught.value).startswith("planted.yml: ")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_unknown_fault_lists_the_known_ones() -> None:
    with pytest.raises(
        LabError, match=r"found 'nope' \(no such fault\).*; next: gpu-node lab break lists them"
    ):
        faults.find("nope")


def test_an_unknown_node_lists_the_known_ones() -> None:
    with pytest.raises(LabError, match="allowed: a100-01, v100-01, v100-02"):
        roster.node("nope")

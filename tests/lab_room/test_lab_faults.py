"""Fault files: those of the catalogue load; a bad one is refused with the reason."""

from pathlib import Path

import pytest

from gpu_node.drift.engine.registry import RULES
from gpu_node.facts.areas import AREAS
from gpu_node.lab import faults
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


def test_the_catalogue_has_every_area_that_is_repaired() -> None:
    """Its rules exist, and one fault is none."""
    known = faults.catalogue()
    assert known["nothing-wrong"].expect == []
    expected = {each.rule for fault in known.values() for each in fault.expect}
    assert expected <= {*RULES, *(f"{area}.unreadable" for area in AREAS)}
    # The lab's inventory has no workspace: tests/e2e/test_workspace.py has its own. Its nodes have
    # no firewalld: tests/deploy/test_firewalld.py has nodes with one.
    repaired = {step for rule in RULES.values() for step in rule.steps}
    without = sorted(repaired - {rule.split(".")[0] for rule in expected} - {"workspace", "ports"})
    assert not without, f"lab/faults: no fault for area {', '.join(without)}"


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
    """Unchanged, it loads."""
    file = tmp_path / "planted.yml"
    file.write_text(GOOD)
    assert "Expect toolchain.cmake-old on a100-01." in faults.load(file).forecast()
    file.write_text(GOOD + change)
    with pytest.raises(LabError) as caught:
        faults.load(file)
    assert str(caught.value).startswith("planted.yml: ")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)

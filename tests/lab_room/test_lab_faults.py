"""Fault files: those of the catalogue load, and a bad one is refused with what is wrong."""

from pathlib import Path

import pytest

from drift.rules import RULES
from lab import faults, roster
from lab.errors import LabError

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


def test_the_catalogue_loads_and_has_every_area() -> None:
    known = faults.catalogue()
    areas = {expected.rule.split(".")[0] for fault in known.values() for expected in fault.expect}
    assert {"shm", "limits", "toolchain"} <= areas
    assert len(known) >= 16


def test_the_catalogue_has_a_fault_that_is_none() -> None:
    assert faults.catalogue()["nothing-wrong"].expect == []


def test_repaired_faults_are_fixable() -> None:
    """A deploy ends well beside a warning that stays, not beside an error."""
    for fault in faults.catalogue().values():
        stays = [each.rule for each in fault.expect if not each.fixable]
        warnings = [each for each in stays if each in RULES and RULES[each].severity == "warning"]
        assert not fault.repaired or stays == warnings, fault.name
        assert not fault.repaired or not fault.expect or len(stays) < len(fault.expect), fault.name


def test_a_good_file(tmp_path: Path) -> None:
    fault = faults.load(write(tmp_path, GOOD))
    assert (fault.name, fault.changes) == ("planted", ["/usr/bin/true"])
    assert "Expect toolchain.cmake-old on a100-01." in fault.forecast()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("sumary: x\n", "unknown key 'sumary'; a fault has: summary, node"),
        ("repaired: maybe\n", "repaired: "),
        ("node: h100-01\n", "no node 'h100-01'; there are: a100-01"),
        ("name: other\n", "the file's name is the name"),
        ("changes: [\n", "no YAML: "),
        ("expect: [{rule: shm, node: a100-01, fixable: true}]\n", "expect.0.rule: "),
        ("container: {cap_drop: []}\n", "container.cap_drop: "),
    ],
)
def test_a_bad_file_says_what_is_wrong(tmp_path: Path, change: str, said: str) -> None:
    with pytest.raises(LabError) as caught:
        faults.load(write(tmp_path, GOOD + change))
    assert str(caught.value).startswith("planted.yml: ")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_unknown_fault_lists_those_there_are() -> None:
    with pytest.raises(
        LabError, match=r"(?s)no fault 'nope'.*\n.*cmake-half-unpacked +An unpacking"
    ):
        faults.find("nope")


def test_an_unknown_node_lists_those_there_are() -> None:
    with pytest.raises(LabError, match="there are: a100-01, v100-01, v100-02"):
        roster.node("nope")

"""One test per case file, cases/SECTION/CASE.yml: a node's answer and what is read from it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpu_node.facts.limits import state as limits
from gpu_node.facts.node import AREA_FACTS, SECTIONS
from gpu_node.facts.preflight import state as preflight
from gpu_node.facts.probe.protocol import Reading, Readings
from gpu_node.facts.probe.request import ProbeRequest
from tests import case_files

CASES = Path(__file__).parent / "cases"
FILES = sorted(CASES.glob("*/*.yml"))


def _name(path: Path) -> str:
    return f"{path.parent.name}/{path.stem}"


def test_each_section_has_a_case() -> None:
    """A section without a recorded or described answer is not tested at all."""
    apart = limits.sections(ProbeRequest(user="train", trains_apart=True))
    every = {section.name for section in (*SECTIONS, *apart, *preflight.SECTIONS)}
    assert {path.parent.name for path in FILES} == every


@pytest.mark.parametrize("path", FILES, ids=_name)
def test_a_case_says_where_it_comes_from(path: Path) -> None:
    """The first line distinguishes a recorded answer from a described one."""
    assert path.read_text().startswith(("# Recorded on ", "# Not recorded: "))


def _flat(state: dict[str, Any]) -> dict[str, Any]:
    """A state's fields; those of the pre-flight's packages as well, and not what was unreadable."""
    if "system" not in state:
        return state
    packages: dict[str, Any] = state["packages"]
    rest = ("packages", "driver", "network", "unreadable")
    return {**packages, **{key: each for key, each in state.items() if key not in rest}}


@pytest.mark.parametrize("path", FILES, ids=_name)
def test_a_section_is_read(path: Path) -> None:
    """An answer gives the expected values, or is unreadable for the expected reason, or both."""
    case: dict[str, Any] = case_files.load(path.read_text())
    section = path.parent.name
    fact = AREA_FACTS.get(section.split(".")[0])
    sections, parse = (fact.sections, fact.parse) if fact else (preflight.SECTIONS, preflight.parse)
    others = {each.name: Reading(0, "", "not asked") for each in sections}
    readings = Readings(
        {**others, section: Reading(case.get("rc", 0), case["output"].rstrip("\n"))}
    )
    state = _flat(parse(readings).model_dump(mode="json"))
    reasons = {unread.section: unread.reason for unread in readings.unread}
    if "unreadable" in case:
        assert case["unreadable"] in reasons[section]
    else:
        assert section not in reasons
    if "expect" in case:
        assert {key: state[key] for key in case["expect"]} == case["expect"]
    else:
        assert not any(state.values())

"""One test a case of cases/SECTION.yml: a node's answer and what is read from it."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_node.facts.host import settings
from gpu_node.facts.job import state as job
from gpu_node.facts.limits import state as limits
from gpu_node.facts.node import AREA_FACTS, SECTIONS
from gpu_node.facts.probe.protocol import Reading, Readings
from gpu_node.facts.probe.request import JobAsked, ProbeRequest
from gpu_node.facts.probe.rows import rows_of
from tests.case_files import Case
from tests.facts import preflight
from tests.facts.case_answers import ALL


def test_each_section_has_a_case() -> None:
    """A section without a recorded or described answer is not tested, but a row has its own."""
    apart = limits.sections(ProbeRequest(user="train", trains_apart=True))
    of_job = job.sections(ProbeRequest(job=JobAsked(programs=("torchrun",))))
    named = settings.sections(ProbeRequest(sysctl=["vm.x"], modules=["x"], services=["x"]))
    asked = (*SECTIONS, *apart, *of_job, *named, *preflight.SECTIONS)
    every = {section.name for section in asked}
    rows = {row.section.name for area in AREA_FACTS for row in rows_of(area)}
    assert every - rows <= {case.subject for case in ALL} <= every


def test_a_case_says_where_it_comes_from() -> None:
    """The comment distinguishes a recorded answer from a described one."""
    begun = ("Recorded on ", "Not recorded: ")
    assert [str(case) for case in ALL if not case.about.startswith(begun)] == []


def _named(expected: Any, value: Any) -> Any:
    """Return a value without what is None and not expected: a new field touches no old case."""
    if isinstance(expected, dict) and isinstance(value, dict):
        kept = {key: each for key, each in value.items() if key in expected or each is not None}
        return {key: _named(expected.get(key), each) for key, each in kept.items()}
    if isinstance(expected, list) and isinstance(value, list) and len(expected) == len(value):
        return [_named(*pair) for pair in zip(expected, value, strict=True)]
    return value


@pytest.mark.parametrize("named", ALL, ids=str)
def test_a_section_is_read(named: Case) -> None:
    """An answer gives the expected values, or is unreadable for the expected reason, or both."""
    case, section = named.data, named.subject
    fact = AREA_FACTS[section.split(".")[0]]
    others = {each.name: Reading(0, "", "not asked") for each in fact.sections}
    readings = Readings(
        {**others, section: Reading(case.get("rc", 0), case["output"].rstrip("\n"))}
    )
    state = fact.parse(readings).model_dump(mode="json")
    reasons = {unread.section: unread.reason for unread in readings.unread}
    if "unreadable" in case:
        assert case["unreadable"] in reasons[section]
    else:
        assert section not in reasons
    if "expect" in case:
        expected: dict[str, Any] = case["expect"]
        assert _named(expected, {key: state[key] for key in expected}) == expected
    else:
        assert not any(state.values())

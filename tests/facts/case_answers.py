"""The answers of all cases by section, and how a section of the probe is read."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from gpu_node.facts.node import AREA_FACTS
from gpu_node.facts.probe.base import State
from gpu_node.facts.probe.protocol import Reading, Readings
from tests import case_files

ALL = case_files.cases(Path(__file__).parent / "cases")


def _answers() -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for case in ALL:
        answer = case.data["output"].rstrip("\n")
        if answer.strip() and not case.data.get("rc") and "unreadable" not in case.data:
            found[case.subject].append(answer)
    return dict(found)


ANSWERS = _answers()


def parsed(section: str, text: str) -> tuple[State, Readings]:
    """Return the state of a section's area where the section alone was asked, and its readings."""
    fact = AREA_FACTS[section.split(".")[0]]
    others = {each.name: Reading(0, "", "not asked") for each in fact.sections}
    readings = Readings({**others, section: Reading(0, text)})
    return fact.parse(readings), readings

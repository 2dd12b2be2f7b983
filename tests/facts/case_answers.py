"""The answers of all cases by section, and how a section of the probe is read."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from gpu_node.facts.node import AREA_FACTS
from gpu_node.facts.preflight import state as preflight
from gpu_node.facts.probe.base import State
from gpu_node.facts.probe.protocol import Reading, Readings
from tests import case_files

FILES = sorted((Path(__file__).parent / "cases").glob("*/*.yml"))


def _answers() -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for path in FILES:
        case = case_files.load(path.read_text())
        if case["output"].strip() and not case.get("rc") and "unreadable" not in case:
            found[path.parent.name].append(case["output"].rstrip("\n"))
    return dict(found)


ANSWERS = _answers()


def parsed(section: str, text: str) -> tuple[State, Readings]:
    """Return the state of a section's area where the section alone was asked, and its readings."""
    fact = AREA_FACTS.get(section.split(".")[0])
    sections, parse = (fact.sections, fact.parse) if fact else (preflight.SECTIONS, preflight.parse)
    others = {each.name: Reading(0, "", "not asked") for each in sections}
    readings = Readings({**others, section: Reading(0, text)})
    return parse(readings), readings

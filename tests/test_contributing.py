"""CONTRIBUTING.md names files that exist: for every area, rule, fault and format."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gpu_node.cli.commands import NAMES
from gpu_node.drift.engine.registry import RULES
from gpu_node.drift.engine.shown_facts import FACTS
from gpu_node.drift.report.formats import FORMATS
from gpu_node.facts.areas import AREAS
from gpu_node.facts.node import AREA_FACTS
from gpu_node.facts.probe.rows import rows_of
from gpu_node.lab.faults import catalogue

REPOSITORY = Path(__file__).parents[1]
TEXT = (REPOSITORY / "CONTRIBUTING.md").read_text()
ROOMS = "inventories|facts|drift|diagnose|deploy|history|verify|onboarding|cli|lab|tests|bench|docs"
NAMED = sorted(set(re.findall(rf"`((?:{ROOMS})/[\w./*-]*|[A-Z]+\.md|pyproject\.toml)`", TEXT)))
SHOWN = sorted({fact.area for fact in FACTS})
READ = [area for area in AREAS if rows_of(area)]
# The other areas ask what the inventory names, or nothing.
ASKING = [area for area in AREAS if AREA_FACTS[area].sections]
REPAIRING = [area for area in AREAS if any(area in rule.steps for rule in RULES.values())]


def places(name: str) -> list[str]:
    """Return the paths that a name stands for: for each area, rule or command."""
    if "COMMAND" in name:
        names = (each.replace("-", "_") if name.startswith("cli/") else each for each in NAMES)
        return [name.replace("COMMAND", each) for each in names]
    name = name.replace("OPERATION", "*").replace("/NAME.", "/*.")
    if "AREA" in name:
        areas = REPAIRING if "deploy/" in name else AREAS
        areas = ASKING if name.startswith("tests/facts/") else areas
        areas = SHOWN if "/shown" in name else READ if "/readings" in name else areas
        return [name.replace("AREA", area) for area in areas]
    return [name.replace("RULE", rule) for rule in RULES] if "RULE" in name else [name]


def test_names_are_found() -> None:
    """The pattern reads the text as it is written."""
    assert {"facts/areas.py", "drift/AREA/rules*.py", "deploy/AREA/step.py"} <= {*NAMED}
    assert len(NAMED) >= 15


@pytest.mark.parametrize("name", NAMED)
def test_a_named_file_exists(name: str) -> None:
    """For each area that needs it, each rule, and alone."""
    missing = [place for place in places(name) if not [*REPOSITORY.glob(place)]]
    assert missing == []


def test_each_section_has_its_examples() -> None:
    """What may be added is what the registers hold."""
    headings = re.findall(r"^## (.*)$", TEXT, re.MULTILINE)
    assert headings == [
        *(
            "Add a rule",
            "Add a value, or a key",
            "Compare a value between nodes",
            "Add an area",
            "Add a cause",
            "Add a launcher",
            "Add a fault",
        ),
        *("Add a report format", "Add a command", "Lanes"),
    ]
    assert catalogue() and all(
        (REPOSITORY / f"drift/report/{form}.py").is_file() for form in FORMATS
    )


def test_each_section_says_what_to_run() -> None:
    """With tests that exist."""
    sections = TEXT.split("\n## ")[1:-1]
    assert [each.splitlines()[0] for each in sections if "\nRun: `" not in each] == []
    named = re.findall(r"(?<=[ `])tests/[\w/.]+", " ".join(re.findall(r"Run: `pytest.*?`", TEXT)))
    assert len(named) > 9 and [each for each in named if not (REPOSITORY / each).exists()] == []


def test_each_lane_is_named() -> None:
    """In the section about lanes, whose targets `make` has."""
    makefile = (REPOSITORY / "Makefile").read_text()
    lanes = makefile.split("LANES :=", 1)[1].splitlines()[0].split()
    section = TEXT.split("## Lanes", 1)[1]
    assert [lane for lane in lanes if lane not in section] == []

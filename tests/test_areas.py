"""The register of areas: what an area needs, and that nothing else has to know of it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpu_node.facts.areas import AREAS
from tests import case_files

REPOSITORY = Path(__file__).parent.parent
_RULE = re.compile(r'@rule\(\s*"([a-z]+\.[a-z-]+)"')


def missing(area: str, repository: Path) -> Iterator[str]:
    """Yield each file that an area of the register needs and that is not there.

    It reads files alone: the message also comes where the area cannot be imported.
    """
    if not (repository / "facts" / area / "__init__.py").is_file():
        yield f"facts/{area}/__init__.py: the area's one subclass of AreaFact"
    modules = [*(repository / "drift" / area).glob("rules*.py")]
    if not modules or not (repository / "drift" / area / "__init__.py").is_file():
        yield f"drift/{area}/__init__.py and drift/{area}/rules.py: the area's rules"
    if not [*(repository / "tests/facts/cases").glob(f"{area}.*/*.yml")]:
        yield f"tests/facts/cases/{area}.SECTION/CASE.yml: a node's answer and its state"
    rules = [found for path in modules for found in _RULE.findall(path.read_text())]
    cases = {rule: [*(repository / "tests/drift/cases" / rule).glob("*.yml")] for rule in rules}
    for rule in (rule for rule, paths in cases.items() if not paths):
        yield f"tests/drift/cases/{rule}/CASE.yml: a node on which the rule finds something"
    is_fixable = any(_has_fixable(path) for paths in cases.values() for path in paths)
    if is_fixable and not (repository / "deploy" / area / "step.py").is_file():
        yield f"deploy/{area}/step.py: a rule of the area is fixable, so a step repairs it"


def _has_fixable(case: Path) -> bool:
    findings = case_files.load(case.read_text()).get("findings") or ()
    return any(each.get("fixable", False) for each in findings)


@pytest.mark.parametrize("area", AREAS)
def test_an_area_has_all_files_that_it_needs(area: str) -> None:
    """The message names each file that is missing."""
    files = [*missing(area, REPOSITORY)]
    assert not files, f"area {area}: missing\n  " + "\n  ".join(files)


def test_each_missing_file_has_its_message(tmp_path: Path) -> None:
    """An area that is only registered needs all of them; each file removes its own message."""
    assert [each.partition(":")[0] for each in missing("clock", tmp_path)] == [
        "facts/clock/__init__.py",
        "drift/clock/__init__.py and drift/clock/rules.py",
        "tests/facts/cases/clock.SECTION/CASE.yml",
    ]
    for name, text in {
        "facts/clock/__init__.py": "",
        "drift/clock/__init__.py": "",
        "drift/clock/rules.py": '@rule(\n    "clock.skew", "error"\n)',
        "tests/facts/cases/clock.now/debian12.yml": "",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert [each.partition(":")[0] for each in missing("clock", tmp_path)] == [
        "tests/drift/cases/clock.skew/CASE.yml"
    ]
    case = tmp_path / "tests/drift/cases/clock.skew/behind.yml"
    case.parent.mkdir(parents=True)
    case.write_text("findings: [{rule: clock.skew, fixable: false}]")
    assert not [*missing("clock", tmp_path)]
    case.write_text("findings: [{rule: clock.skew, fixable: true}]")
    assert [each.partition(":")[0] for each in missing("clock", tmp_path)] == [
        "deploy/clock/step.py"
    ]


# An area in two folders beside those of the product: one fact, one rule, one row of the report.
MADE_UP = {
    "facts/__init__.py": """
from gpu_node.facts.probe.base import AreaFact, State
from gpu_node.facts.probe.protocol import Readings, Section


class UptimeState(State):
    seconds: int | None


class Uptime(AreaFact):
    sections = (Section("uptime.seconds", "echo 42"),)
    state = UptimeState

    @staticmethod
    def parse(readings: Readings) -> UptimeState:
        return UptimeState(seconds=readings.take("uptime.seconds", int))
""",
    "drift/__init__.py": "",
    "drift/rules.py": '''
from gpu_node.drift.engine.rule import Fault, rule


@rule("uptime.short", "error", why="It is still starting.", manual="Wait a minute.")
def short(found, wanted):
    """The node booted a moment ago."""
    if found.seconds is not None and found.seconds < 60:
        yield Fault("boot", f"{found.seconds} s", "60 s", "it booted", "wait", fixable=False)
''',
    "drift/shown.py": """
from gpu_node.drift.engine.fact import Fact
from gpu_node.drift.uptime.rules import short

FACTS = (
    Fact("uptime.seconds", "per-host", (short,), lambda node: f"{node.uptime.seconds} s"),
)
""",
}
# Registers the area, and asks this machine as `gpu-node report` asks a node.
RUN = """
import json, subprocess, sys
import gpu_node.drift, gpu_node.facts
from gpu_node.facts import areas

folder = sys.argv[1]
areas.AREAS = (*areas.AREAS, "uptime")
gpu_node.facts.__path__.append(folder + "/facts")
gpu_node.drift.__path__.append(folder + "/drift")

from gpu_node.drift.report.model import Seen, Tool, build
from gpu_node.drift.engine.shown_facts import FACTS
from gpu_node.facts.node import NodeProbe, parse
from gpu_node.inventories.schema import NodeWanted

script = NodeProbe().command()
assert "uptime.seconds" in script
done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True)
state = parse(done.stdout.split("\\n"))
wanted = NodeWanted(address="192.0.2.1")
report = build({"a": Seen(wanted, state)}, Tool(name="t", version="1"), "lab.py", "now")
fact = next(fact for fact in FACTS if fact.area == "uptime")
assert (fact.value(state), fact.is_marked(report.hosts["a"].findings)) == ("42 s", True)
print(report.model_dump_json(by_alias=True))
"""


def test_a_new_area_is_one_line_in_the_register_and_its_folders(tmp_path: Path) -> None:
    """Its section is in the probe, its state in the JSON, its finding and its row in the report.

    The inventory has no key for it, so it is judged on every node.
    """
    for name, text in MADE_UP.items():
        room, _, file = name.partition("/")
        path = tmp_path / room / "uptime" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(tmp_path)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY / "src")},
    )
    assert done.returncode == 0, done.stderr
    node = json.loads(done.stdout)["hosts"]["a"]
    assert node["facts"]["uptime"] == {"seconds": 42}
    assert [(each["rule"], each["found"]) for each in node["findings"]] == [
        ("uptime.short", "42 s")
    ]
    assert node["status"] == "drift"

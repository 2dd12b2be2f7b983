"""The register of areas: what an area needs, and that nothing else has to know of it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest

from gpu_node.facts.areas import AREAS, RULE_ID
from tests import case_files

REPOSITORY = Path(__file__).parent.parent
_RULE = re.compile(rf"^({RULE_ID}):$", re.MULTILINE)
_FACT = re.compile(r"^class \w+\(AreaFact\)", re.MULTILINE)


def unregistered(repository: Path, areas: Collection[str] = AREAS) -> Iterator[str]:
    """Yield the line to add for each folder that has a probe or rules and is no area yet."""
    probes = (repository / "facts").glob("*/*.py")
    rules = (repository / "drift").glob("*/rules.yml")
    found = {path.parent for path in probes if _FACT.search(path.read_text())}
    found |= {path.parent for path in rules}
    for name in sorted({folder.name for folder in found} - {*areas}):
        folders = " and ".join(
            sorted(f"{each.parent.name}/{name}" for each in found if each.name == name)
        )
        yield f'facts/areas.py: add the line "{name}: STATE" to Areas, to load {folders}'


def missing(area: str, repository: Path) -> Iterator[str]:
    """Yield each file that an area of the register needs and that is not there.

    It reads files alone: the message also comes where the area cannot be imported.
    """
    if not (repository / "facts" / area / "__init__.py").is_file():
        yield f"facts/{area}/__init__.py: the area's one subclass of AreaFact"
    for name in ("__init__.py", "rules.yml", "rules.py"):
        if not (repository / "drift" / area / name).is_file():
            yield f"drift/{area}/{name}: the area's rules"
    asks = "sections = ()" not in _text(repository / "facts" / area / "__init__.py")
    if asks and not [*(repository / "tests/facts/cases").glob(f"{area}.*.yml")]:
        yield f"tests/facts/cases/{area}.*.yml: a node's answer and its state"
    rules = _RULE.findall(_text(repository / "drift" / area / "rules.yml"))
    cases = {rule: repository / "tests/drift/cases" / f"{rule}.yml" for rule in rules}
    for rule in (rule for rule, path in cases.items() if not path.is_file()):
        yield f"tests/drift/cases/{rule}.yml: a node on which the rule finds something"
    is_fixable = any(_has_fixable(path) for path in cases.values() if path.is_file())
    if is_fixable and not (repository / "deploy" / area / "step.py").is_file():
        yield f"deploy/{area}/step.py: a rule of the area is fixable, so a step repairs it"
    changes = repository / "CHANGELOG.md"
    if not changes.is_file() or not re.search(rf"`{area}[.:`]", changes.read_text()):
        yield f"CHANGELOG.md: a line that names `{area}` or one of its rules"


def _text(path: Path) -> str:
    return path.read_text() if path.is_file() else ""


def _has_fixable(path: Path) -> bool:
    cases = case_files.parse(path.stem, path.read_text())
    return any(each["fixable"] for case in cases for each in case.data["findings"])


@pytest.mark.parametrize("area", AREAS)
def test_an_area_has_all_files_that_it_needs(area: str) -> None:
    """The message names each file that is missing."""
    files = [*missing(area, REPOSITORY)]
    assert not files, f"area {area}: missing\n  " + "\n  ".join(files)


def test_each_folder_of_an_area_is_registered() -> None:
    """Its probe and its rules are not loaded otherwise."""
    lines = [*unregistered(REPOSITORY)]
    assert not lines, "\n".join(lines)


def test_a_folder_that_is_not_registered_has_its_message(tmp_path: Path) -> None:
    """Its probe alone, its rules alone, or both; a folder with neither is no area."""
    for name, text in {
        "facts/clock/__init__.py": "class Clock(AreaFact):\n",
        "facts/uptime/state.py": "class Uptime(AreaFact):\n",
        "facts/packages/deb.py": "class Package:\n",
        "drift/uptime/rules.yml": "uptime.short:\n",
        "drift/cables2/rules.yml": "cables2.loose:\n",
        "drift/engine/registry.py": "RULES = {}\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert [*unregistered(tmp_path, ["clock"])] == [
        'facts/areas.py: add the line "cables2: STATE" to Areas, to load drift/cables2',
        'facts/areas.py: add the line "uptime: STATE" to Areas, to load drift/uptime and '
        "facts/uptime",
    ]


def test_an_area_without_a_folder_has_its_message() -> None:
    """The collection of other tests ends with it: it names the file."""
    for room, module, why in (
        ("facts", "gpu_node.facts.node", "the area's one subclass of AreaFact"),
        (
            "drift",
            "gpu_node.drift.engine.registry",
            "an empty file, rules.yml and rules.py beside it",
        ),
    ):
        script = f"""
from importlib.machinery import PathFinder
from sys import meta_path
from gpu_node.facts import areas
areas.AREAS = ("clock", *areas.AREAS)
class Without(PathFinder):
    def find_spec(name, path=None, target=None):
        if name == "gpu_node.{room}.clock":
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
meta_path.insert(0, Without)
import {module}
"""
        done = subprocess.run(
            [sys.executable, "-c", script],
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": str(REPOSITORY / "src")},
        )
        assert done.stderr.splitlines()[-1] == (
            f"ImportError: facts/areas.py registers the area clock, but {room}/clock/__init__.py "
            f"does not exist; add it: {why}"
        )


def test_contributing_lists_what_an_area_needs(tmp_path: Path) -> None:
    """The files that every area needs, and no other one: the rest is for some areas only."""
    text = (REPOSITORY / "CONTRIBUTING.md").read_text()
    section = text.split("## Add an area", 1)[1].split("\n## ", 1)[0]
    steps = re.findall(r"^\d+\. (.*(?:\n {3}.*)*)", section, re.MULTILINE)
    needed = " ".join(step for step in steps if not step.startswith("Only if"))
    named = set(re.findall(r"`([\w.*/]+/[\w.*/]+|[A-Z]+\.md)`", needed))
    (tmp_path / "drift/AREA").mkdir(parents=True)
    (tmp_path / "drift/AREA/rules.yml").write_text("area.name:\n")
    files = {
        each.partition(": ")[0].replace("area.name", "RULE") for each in missing("AREA", tmp_path)
    }
    assert named == {"facts/areas.py", "drift/AREA/rules.yml", *files}


def test_each_missing_file_has_its_message(tmp_path: Path) -> None:
    """An area that is only registered needs all of them; each file removes its own message."""
    assert [each.partition(":")[0] for each in missing("clock", tmp_path)] == [
        "facts/clock/__init__.py",
        "drift/clock/__init__.py",
        "drift/clock/rules.yml",
        "drift/clock/rules.py",
        "tests/facts/cases/clock.*.yml",
        "CHANGELOG.md",
    ]
    for name, text in {
        "facts/clock/__init__.py": "",
        "drift/clock/__init__.py": "",
        "drift/clock/rules.py": "",
        "drift/clock/rules.yml": "clock.skew:\n",
        "tests/facts/cases/clock.now.yml": "",
        "CHANGELOG.md": "- `clock.skew`: a node whose clock differs.\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert [each.partition(":")[0] for each in missing("clock", tmp_path)] == [
        "tests/drift/cases/clock.skew.yml"
    ]
    case = tmp_path / "tests/drift/cases/clock.skew.yml"
    case.parent.mkdir(parents=True)
    case.write_text("behind:\n  findings: [{rule: clock.skew, fixable: false}]\n")
    assert not [*missing("clock", tmp_path)]
    case.write_text("behind:\n  findings: [{rule: clock.skew, fixable: true}]\n")
    assert [each.partition(":")[0] for each in missing("clock", tmp_path)] == [
        "deploy/clock/step.py"
    ]


# An area in two folders beside those of the product: a rule with a function, a comparison that is a
# row, and two rows of the report.
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
    "drift/rules.yml": """
uptime.short:
  checks: The node booted a moment ago.
  severity: error
  why: it is still starting
  manual: wait a minute

uptime.differs:
  checks: The node did not boot together with the other nodes.
  severity: info
  when: [several nodes, comparing]
  why: one of them restarted alone
  manual: look at its log
""",
    "drift/rules.py": """
from gpu_node.drift.engine.rule import At, Fault, check


@check("uptime.short")
def short(at):
    if at.here.seconds is not None and at.here.seconds < 60:
        yield Fault("boot", f"{at.here.seconds} s", "60 s")
""",
    "drift/shown.py": """
from gpu_node.drift.engine.fact import shows

shows("uptime.text")(lambda node: f"{node.uptime.seconds} s")
""",
    "drift/shown.yml": """
uptime.text: {marked_by: [uptime.short]}
uptime.seconds: {of: uptime.seconds, same: everywhere, rule: uptime.differs}
""",
}
# Registers the area, and asks this machine as `gpu-node report` asks a node.
RUN = """
import json, subprocess, sys
import gpu_node.drift, gpu_node.facts
from gpu_node.facts import areas

folder = sys.argv[1]
areas.Areas.__annotations__["uptime"] = "UptimeState"
areas.AREAS = tuple(areas.Areas.__annotations__)
gpu_node.facts.__path__.append(folder + "/facts")
gpu_node.drift.__path__.append(folder + "/drift")

from gpu_node.drift.report.model import report_of
from gpu_node.drift.report.seen import Seen
from gpu_node.drift.engine.shown_facts import FACTS
from gpu_node.facts.node import NodeProbe, parse
from gpu_node.facts.probe.frame import READER, by_stdin
from gpu_node.facts.probe.request import ProbeRequest
from gpu_node.inventories.wanted import NodeWanted

script = NodeProbe().script_for(ProbeRequest())
assert "uptime.seconds" in script
text = "\\n".join(by_stdin(script))
done = subprocess.run(["sh", "-c", READER], input=text, capture_output=True, text=True, check=True)
state = parse(done.stdout.split("\\n"))
wanted = NodeWanted(address="192.0.2.1")
later = state.uptime.model_copy(update={"seconds": 43})
other = state.model_copy(update={"uptime": later})
nodes = {"a": Seen(wanted, state), "b": Seen(wanted, other)}
report = report_of("lab.py", nodes)
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
    # This machine may have findings of other areas: a process that another test has left alone.
    found = [each for each in node["findings"] if each["rule"].startswith("uptime.")]
    assert [(each["rule"], each["found"]) for each in found] == [
        ("uptime.short", "42 s"),
        ("uptime.differs", "42"),
    ]
    assert node["status"] == "drift"

"""The cases of the rules: cases/RULE/CASE.yml is a node, and the complete list of its findings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gpu_node.drift.engine.check import check, judge
from gpu_node.drift.engine.finding import Finding
from gpu_node.drift.engine.guard import Judged
from gpu_node.drift.engine.neighbours import Among
from gpu_node.facts.ask.via import SSH
from gpu_node.facts.node import NodeState
from gpu_node.facts.probe.peers import peers
from gpu_node.inventories.schema import NodeWanted
from tests import case_files
from tests.drift import states

CASES = Path(__file__).parent / "cases"
FILES = sorted(CASES.glob("*/*.yml"))


def load(path: Path) -> dict[str, Any]:
    case: dict[str, Any] = case_files.load(path.read_text())
    assert case.keys() <= {"found", "wanted", "among", "beside", "others", "findings"}
    return case


def beside(given: dict[str, Any] | None) -> Among:
    """The node among others: `found` are those that answered, each a change of the healthy one."""
    case = given or {}
    others: dict[str, Any] = case.get("found", {})
    found = {name: states.found(states.named(change, name)) for name, change in others.items()}
    return Among(
        case.get("name", ""),
        peers(case.get("nodes", ())),
        found,
        bool(case.get("allow_deletions")),
        via=case.get("via", SSH),
    )


def findings_of(path: Path) -> tuple[list[Finding], list[dict[str, Any]]]:
    """Return the findings of a case's node, and those that the case expects."""
    case = load(path)
    change, around = case.get("found"), beside(case.get("beside"))
    if "among" in case:  # in the mesh of base.yml
        change, around = states.meshed(change), states.among(case["among"])
    change = states.named(change, around.name)
    found, wanted = states.found(change), states.wanted(case.get("wanted"))
    if "others" in case:
        findings = _judged_together(found, wanted, case["others"])
    else:
        findings = check(found, wanted, around)
    return findings, case["findings"]


def _judged_together(
    found: NodeState, wanted: NodeWanted, others: dict[str, dict[str, Any]]
) -> list[Finding]:
    """Return the findings of a node, called `n`, that is compared with others.

    Each of `others` is a change of the healthy node (`found`) and of the inventory (`wanted`).
    """
    nodes = {"n": (found, wanted)}
    for name, other in others.items():
        nodes[name] = (states.found(other.get("found")), states.wanted(other.get("wanted")))
    around = {name: each for name, (each, _) in nodes.items()}
    judged = {
        name: Judged(each, expected, Among(name, (), around))
        for name, (each, expected) in nodes.items()
    }
    return judge(judged).findings["n"]

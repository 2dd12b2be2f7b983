"""The cases of the rules, cases/RULE.yml: a node, and the complete list of its findings."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from gpu_node.drift.engine.check import check, judge
from gpu_node.drift.engine.finding import Finding
from gpu_node.drift.engine.nodes import Judged, Nodes
from gpu_node.drift.job.job import Given, Job, job_of
from gpu_node.drift.job.launch import of_words
from gpu_node.facts.ask.via import SSH
from gpu_node.facts.node import NodeState
from gpu_node.facts.probe.peers import peers
from gpu_node.inventories.wanted import NodeWanted
from tests import case_files
from tests.case_files import Case
from tests.drift import newcomer, states

CASES = Path(__file__).parent / "cases"
ALL = case_files.cases(CASES)
KEYS = {"found", "wanted", "mesh", "nodes", "others", "newcomer", "members", "job", "findings"}


def nodes_of(case: Mapping[str, Any]) -> Nodes:
    """The nodes around a case's: `states` has changes of the healthy one.

    With `peers: two` they are those of base.yml, and with a job, whose node is called a100-01.
    """
    given = case.get("nodes", {})
    listed = given.get("peers", "two" if "job" in case else ())
    others: dict[str, Any] = given.get("states", {})
    found = {name: states.state(states.named(change, name)) for name, change in others.items()}
    return Nodes(
        given.get("name", "a100-01" if "job" in case else ""),
        peers(states.BASE["nodes"]["peers"] if listed == "two" else listed),
        found,
        bool(given.get("allow_deletions")),
        via=given.get("via", SSH),
    )


@cache
def findings_of(named: Case) -> tuple[list[Finding], list[dict[str, Any]]]:
    """Return the findings of a case's node, and those that the case expects; judged once."""
    case = named.data
    if "newcomer" in case:  # the server of newcomer.yml
        server = newcomer.server(case)
        return check(server.state, server.wanted, server.nodes), case["findings"]
    change, around = case.get("found"), nodes_of(case)
    if "mesh" in case:  # in the mesh of base.yml
        change, around = states.meshed(change), states.nodes(case["mesh"])
    change = states.named(change, around.name)
    found, wanted = states.state(change), states.wanted(case.get("wanted"))
    if "job" in case:
        around = replace(around, states={around.name: found, **around.states})
        around = replace(around, task=job(case["job"], around))
    if "others" in case:
        findings = _judged_together(found, wanted, case["others"])
    else:
        findings = check(found, wanted, around)
    return findings, case["findings"]


def job(case: dict[str, Any], around: Nodes) -> Job:
    """Return the job of a line, that the node `from` starts (without it, the case's node)."""
    folder, text = case.get("folder", "/data/job"), case.get("config")
    given = Given(of_words(shlex.split(case["line"])), folder, text, "ds.json" if text else "")
    launcher = case.get("from", around.name)
    own = {name: each.job for name, each in around.states.items()}
    return job_of(given, launcher, own, around.peers)


def _judged_together(
    state: NodeState, wanted: NodeWanted, others: dict[str, dict[str, Any]]
) -> list[Finding]:
    """Return the findings of a node, called `n`, that is compared with others.

    Each of `others` is a change of the healthy node (`found`) and of the inventory (`wanted`).
    """
    nodes = {"n": (state, wanted)}
    for name, other in others.items():
        nodes[name] = (states.state(other.get("found")), states.wanted(other.get("wanted")))
    around = {name: each for name, (each, _) in nodes.items()}
    judged = {
        name: Judged(each, expected, Nodes(name, (), around))
        for name, (each, expected) in nodes.items()
    }
    return judge(judged).findings["n"]

"""Rules that need no word in the inventory: the deploy repairs nothing of what they find."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from gpu_node.drift.engine.check import check, judge
from gpu_node.drift.engine.finding import Finding
from gpu_node.drift.engine.nodes import Judged, Nodes
from gpu_node.drift.engine.registry import RULES
from gpu_node.facts.node import NodeState
from gpu_node.inventories.keys import keys_of
from gpu_node.inventories.schema import HostEntry
from gpu_node.inventories.wanted import NodeWanted
from tests.case_files import Case
from tests.drift import newcomer, states
from tests.drift.rule_cases import ALL, nodes_of

_OTHERS = {"a newcomer", "a job"}
ALWAYS = {each.id for each in RULES.values() if not (each.needs or _OTHERS & {*each.when})}
# How a fix names what to set in the inventory: in words, or as YAML.
_IN_INVENTORY = re.compile(r"inventory|\w: \{")
NOTHING = NodeWanted.from_data({"ssh_hostname": "192.0.2.10"})


def test_each_key_is_one_of_the_inventory() -> None:
    """What a finding says to set can be set: a key with a value, or a section of such keys."""
    known = {".".join(map(str, key.path)) for key in keys_of(HostEntry)}
    known |= {key.rpartition(".")[0] for key in known}
    named = {key for each in RULES.values() for group in each.needs for key in group}
    assert named | {each.key for each in RULES.values() if each.steps} <= known


def _findings(named: Case) -> list[Finding]:
    """Return the findings of a case's node, and of those beside it, if nothing is named."""
    case = named.data
    change = case.get("found")
    if "newcomer" in case:
        server = newcomer.server(case)
        return check(server.state, NOTHING, replace(server.nodes, newcomer=None))
    if "mesh" in case:
        around = states.nodes(case["mesh"])
        return check(states.state(states.meshed(change)), NOTHING, around)
    nodes = {"n": states.state(change)}
    for name, other in case.get("others", {}).items():
        nodes[name] = states.state(other.get("found"))
    if "others" in case:
        return _judged_together(nodes)
    return check(nodes["n"], NOTHING, nodes_of(case))


def _judged_together(nodes: dict[str, NodeState]) -> list[Finding]:
    judged = {name: Judged(each, NOTHING, Nodes(name, (), nodes)) for name, each in nodes.items()}
    return judge(judged).findings["n"]


@pytest.fixture(scope="module")
def fired() -> dict[str, list[Finding]]:
    """What each case finds if the inventory names nothing but the address of the node."""
    return {str(case): _findings(case) for case in ALL}


def test_a_rule_that_is_always_judged_needs_nothing(fired: dict[str, list[Finding]]) -> None:
    """Each has a finding in a case of its own, and no other rule has one."""
    own = {
        each.rule
        for name, findings in fired.items()
        for each in findings
        if each.rule == name.partition("/")[0]
    }
    found = {each.rule for findings in fired.values() for each in findings}
    assert {rule for rule in found if rule in RULES} <= ALWAYS
    assert own >= ALWAYS


def test_what_the_inventory_does_not_name_is_never_repaired(
    fired: dict[str, list[Finding]],
) -> None:
    """No finding is fixable; what a deploy could repair says which key lets it."""
    findings = [each for several in fired.values() for each in several]
    assert not [each for each in findings if each.fixable]
    named = {each.rule for each in findings if _IN_INVENTORY.search(each.fix)}
    assert named >= {rule.id for rule in RULES.values() if rule.id in ALWAYS and rule.steps}
    for each in findings:
        # env.cover-up has the fix of the fault that a variable hides.
        if "gpu-node deploy repairs it; or: " in each.fix and each.rule != "env.cover-up":
            assert each.fix.startswith(f"set {RULES[each.rule].key} in the inventory, ")

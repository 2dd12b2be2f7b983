"""An area that cannot be repaired on one node: everything else is repaired, on all nodes."""

from __future__ import annotations

import re

import pytest

from gpu_node.facts.areas import RULE_ID
from gpu_node.lab import faults, nodes
from tests.e2e.conftest import CONVERGED
from tests.e2e.on_lab import INVENTORY, MANAGED, converge, drift

pytestmark = pytest.mark.lab

BROKEN = faults.find("driver-source-broken")
# Of other areas, on the node whose driver cannot be built and on its peer.
OTHERS = ("limits-file-gone", "shm-shrunk", "ssh-authorized-keys-lost", "bashrc-without-our-block")
AREAS = {"limits", "shm", "ssh", "env", "network"}
RULE = re.compile(rf"\[{BROKEN.node}\] ({RULE_ID}): ")


def rules() -> dict[str, set[str]]:
    """The rules of each node's findings."""
    hosts = drift(INVENTORY).json["hosts"]
    return {name: {each["rule"] for each in host["findings"]} for name, host in hosts.items()}


def test_everything_else_is_repaired(converged_once: None) -> None:
    nodes.put_back(MANAGED, CONVERGED)
    faults.inject(BROKEN)
    for name in OTHERS:
        for node in MANAGED:
            faults.inject(faults.find(name).model_copy(update={"node": node}))
    driver = {each.rule for each in BROKEN.expect}
    before = rules()
    for found in before.values():
        assert {rule.split(".")[0] for rule in found - driver} == AREAS
    done = converge()
    assert (done.code, done.failed) == (1, [BROKEN.node]), done.err
    after = rules()
    assert after == {
        BROKEN.node: driver,
        **{name: set() for name in MANAGED if name != BROKEN.node},
    }
    # The run reports nothing that the next report does not have: the root, and what it leads to.
    assert {rule.split(".")[0] for rule in RULE.findall(done.err)} == {"driver"}
    assert all(rule.removeprefix("driver.") in done.err for rule in driver)
    assert f"1 with drift: 1 problem (1 error), {len(driver)} finding" in done.err
    assert f"[{BROKEN.node}] failed in this run: driver" in done.err
    nodes.put_back(MANAGED, CONVERGED)

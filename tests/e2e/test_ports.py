"""Ports that a rule blocks between two nodes of the lab, over real SSH; it is made from outside.

The nodes have no nft, and no right to read the rules: which one blocks is unknown there.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gpu_node.lab import inside, roster
from gpu_node.lab.machine import as_root
from tests.e2e.on_lab import MANAGED, drift

pytestmark = pytest.mark.lab
CHAIN = "add table inet t; add chain inet t input { type filter hook input priority 0; }"
RULES = {
    "ct state new tcp dport 32768-60999 drop": "dropped without an answer: every port",
    "ct state new tcp dport 32768-60999 reject with icmpx type admin-prohibited": (
        "rejected (no route to host): every port"
    ),
    "tcp flags & (syn|ack) == syn tcp dport 32768-60999 reject with tcp reset": (
        "refused, although it listens: every port"
    ),
    "ct state new tcp dport 42178-60999 drop": (
        "dropped without an answer: the middle and the high port"
    ),
}


def nft(name: str, script: str) -> None:
    """Run this machine's nft in the network of a node."""
    pid = inside.pid(roster.node(name).container)
    as_root(["nsenter", f"--target={pid}", "--net", "nft", script])


@pytest.fixture(autouse=True)
def without_rules_afterwards() -> Iterator[None]:
    """Leave no rule on a node."""
    yield
    for name in MANAGED:
        nft(name, "flush ruleset")


@pytest.mark.parametrize("rules", [list(RULES)[:2], list(RULES)[2:]], ids=["two", "two more"])
def test_each_is_named_as_what_it_is(rules: list[str]) -> None:
    """A rule on each node, and what the other one finds; that none is there is not claimed."""
    for name, rule in zip(MANAGED, rules, strict=True):
        nft(name, f"{CHAIN}; add rule inet t input {rule}")
    report = drift().json
    for name, other, rule in zip(MANAGED, reversed(MANAGED), rules, strict=True):
        found = report["hosts"][name]["findings"]
        (finding,) = [each for each in found if each["rule"] == "ports.blocked"]
        assert finding["subject"] == f"ports from {other}"
        assert finding["found"] == f"{RULES[rule]} tried of 32768-60999"
        assert "cannot be read: there is no root, or no nft" in finding["cause"]

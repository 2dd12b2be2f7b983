"""A server that is to become a node: that of newcomer.yml, and what a case changes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from gpu_node.drift.engine.nodes import Newcomer, Nodes
from gpu_node.facts.node import NodeState
from gpu_node.facts.probe.peers import peers
from gpu_node.inventories.wanted import NodeWanted
from tests import case_files
from tests.drift import states

BASE: dict[str, Any] = case_files.load((Path(__file__).parent / "newcomer.yml").read_text())
NAME = "v100-02"


class Server(NamedTuple):
    """A server, what the inventory wants of it, the nodes around it, and those without answer."""

    state: NodeState
    wanted: NodeWanted
    nodes: Nodes
    silent: dict[str, str]


def server(case: Mapping[str, Any]) -> Server:
    """Return the base's server with a case's changes; a member may be a reason alone."""
    members = _merged(case, "members")
    states_of = {name: each for name, each in members.items() if not isinstance(each, str)}
    return Server(
        states.state(_merged(case, "found")),
        NodeWanted.from_data(_merged(case, "wanted")),
        Nodes(
            NAME,
            peers(BASE["nodes"]),
            {name: states.state(each) for name, each in states_of.items()},
            newcomer=_newcomer(_merged(case, "newcomer")),
        ),
        {name: each for name, each in members.items() if isinstance(each, str)},
    )


def _merged(case: Mapping[str, Any], key: str) -> dict[str, Any]:
    whole = case_files.merged(BASE[key], case.get(key) or {})
    assert isinstance(whole, dict)
    return whole


def _newcomer(given: Mapping[str, Any]) -> Newcomer:
    here = given.get("here", ())
    return Newcomer(
        address=given["address"],
        group=given.get("group"),
        host_keys=tuple(given["host_keys"]),
        pinned={name: tuple(keys) for name, keys in given["pinned"].items()},
        here=None if here is None else tuple(here),
    )

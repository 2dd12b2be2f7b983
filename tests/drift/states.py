"""States of a node for tests: the healthy one of base.yml, and what a test changes in it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpu_node.drift.engine.nodes import Nodes
from gpu_node.drift.report.seen import Seen
from gpu_node.facts.node import AREA_FACTS, NodeState, state_of
from gpu_node.facts.probe.peers import peers
from gpu_node.facts.probe.rows import rows_of
from gpu_node.facts.workspace.state import tree
from gpu_node.inventories.wanted import NodeWanted
from tests import case_files
from tests.case_files import merged

HERE = Path(__file__).parent
BASE: dict[str, dict[str, Any]] = case_files.load((HERE / "base.yml").read_text())
for row in (row for area in AREA_FACTS for row in rows_of(area)):
    BASE["found"].setdefault(row.area, {})[row.name] = row.read(row.healthy)
Overrides = Mapping[str, Any]
# What a node says that has peers: a change of the healthy node.
MESH: Overrides = {"ssh": BASE["mesh"]}


def state(change: Overrides | None = None) -> NodeState:
    """Return the healthy state with a change; GPUs and environments are changes of healthy ones.

    `like` names the kind of node of base.yml that is changed.
    """
    change = dict(change or {})
    kind = BASE["kinds"][change.pop("like")] if "like" in change else {}
    node = merged(merged(BASE["found"], kind), change)
    assert isinstance(node, dict)
    named = node["nccl"]["environments"] or {}
    healthy = BASE["environment"]
    whole = {name: None if each is None else merged(healthy, each) for name, each in named.items()}
    changed = merged(node, {"nccl": {"environments": whole}})
    assert isinstance(changed, dict)
    own = changed["workspace"]
    trees = {path: listed(each) for path, each in (own["trees"] or {}).items()}
    changed["workspace"] = {**own, "trees": trees, "source": listed(own.get("source"))}
    driver = changed["driver"]
    changed["driver"] = {**driver, "smi": driver["smi"] and answered(driver["smi"])}
    return state_of(changed)


def answered(smi: Mapping[str, Any]) -> dict[str, Any]:
    """Return what nvidia-smi answers, with each GPU as a change of the healthy one."""
    gpus = [
        merged({**BASE["gpu"], "uuid": f"GPU-{number}"}, each)
        for number, each in enumerate(smi["gpus"], 1)
    ]
    return {**smi, "gpus": gpus}


def listed(given: Any) -> Any:
    """Return a workspace's tree; one that is written as rsync's lines is read from them."""
    if not isinstance(given, Mapping) or "listed" not in given:
        return given
    mount = {key: given[key] for key in given.keys() - {"listed"}}
    return tree("\n".join([*given["listed"], "end 0"])).model_dump() | mount


def meshed(change: Overrides | None) -> Overrides:
    """Return a change of the healthy node among its peers."""
    whole = merged(MESH, change or {})
    assert isinstance(whole, dict)
    return whole


def named(change: Overrides | None, name: str) -> Overrides:
    """Return a change of the healthy node that also gives it a host name, unless it has one."""
    whole = merged({"host": {"name": {"name": name}}} if name else {}, change or {})
    assert isinstance(whole, dict)
    return whole


def nodes(change: Overrides | None = None) -> Nodes:
    """Return the healthy node's peers with a change; one whose state is null was not asked."""
    around = merged(BASE["nodes"], change or {})
    assert isinstance(around, dict)
    known = {name: each for name, each in around["states"].items() if each is not None}
    states = {name: state(named(meshed(each), name)) for name, each in known.items()}
    return Nodes(around["name"], peers(around["peers"]), states)


def wanted(change: Overrides | None = None) -> NodeWanted:
    """Return the base's inventory values with flat keys changed; None removes one."""
    return NodeWanted.from_data({**BASE["wanted"], **(change or {})})


def seen(change: Overrides | None = None, **data: object) -> Seen:
    """Return a node that answered."""
    return Seen(wanted(data), state(change))

"""States of a node for tests: the healthy one of base.yml, and what a test changes in it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from drift.report.model import Seen
from facts.node import NodeState
from inventories.schema import NodeWanted

HERE = Path(__file__).parent
BASE: dict[str, dict[str, Any]] = yaml.safe_load((HERE / "base.yml").read_text())
Overrides = Mapping[str, Any]


def merged(base: object, change: object) -> object:
    """Return `base` with mappings merged key by key, and anything else replaced."""
    if not isinstance(base, dict) or not isinstance(change, Mapping):
        return change
    return {**base, **{key: merged(base.get(key), value) for key, value in change.items()}}


def found(change: Overrides | None = None) -> NodeState:
    """Return the healthy state with a change; environments are changes of the healthy one."""
    node = merged(BASE["found"], change or {})
    assert isinstance(node, dict)
    named = node["nccl"]["environments"] or {}
    healthy = BASE["environment"]
    whole = {name: None if each is None else merged(healthy, each) for name, each in named.items()}
    return NodeState.model_validate(merged(node, {"nccl": {"environments": whole}}))


def wanted(change: Overrides | None = None) -> NodeWanted:
    """Return the base's wishes with flat keys changed; None takes a wish away."""
    return NodeWanted.from_data({**BASE["wanted"], **(change or {})})


def seen(change: Overrides | None = None, **wishes: object) -> Seen:
    """Return a node that answered."""
    return Seen(wanted(wishes), found(change))

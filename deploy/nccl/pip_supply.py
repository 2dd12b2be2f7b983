"""Where pip may get its wheels, by the inventory, as arguments of operations."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypedDict

from gpu_node.deploy.engine.plan import Plan


class Supply(TypedDict):
    """Lines of requirements with hashes, and whether pip may ask any server."""

    hashes: str
    insecure_index: bool


def supply(plan: Plan, requirements: Iterable[str]) -> Supply:
    """Return the inventory's settings for these requirements."""
    wanted = plan.wanted.supply
    if wanted is None:
        return {"hashes": "", "insecure_index": False}
    return {
        "hashes": wanted.lines(requirements),
        "insecure_index": wanted.insecure_index is True,
    }

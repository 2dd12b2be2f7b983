"""Toolchain rules between nodes: the same cmake, and the same packages of Python environments."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_node.drift.engine.neighbours import Among
from gpu_node.drift.engine.rule import Fault, rule
from gpu_node.drift.engine.unlike import Text, faults
from gpu_node.facts.node import NodeState
from gpu_node.inventories.schema import NodeWanted

_CMAKE = {
    "toolchain.cmake": Text(
        "a CUDA extension that builds on one node may not build on another",
        "name the release in the inventory, and the deploy installs it: toolchain: {cmake: "
        "{version: ..., url: ..., sha256: ...}}",
    )
}


@rule(
    "toolchain.cmake-differs",
    "warning",
    compares=True,
    several=True,
    always=True,
    why="A CUDA extension that builds on one node may not build on another.",
    manual="Name the release in the inventory: toolchain: {cmake: ...}.",
    alone="Install one release in each environment that builds: pip install cmake==VERSION.",
)
def cmake_differs(found: NodeState, wanted: NodeWanted, among: Among) -> Iterator[Fault]:
    """The first cmake in PATH has another version than on the other nodes."""
    yield from faults(among, _CMAKE)

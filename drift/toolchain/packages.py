"""Packages of Python environments: those that the inventory pins, and all others by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache

from packaging.version import InvalidVersion, Version

from gpu_node.drift.tables import rows
from gpu_node.facts.nccl.state import Environment
from gpu_node.facts.node import NodeState
from gpu_node.inventories.schema import NodeWanted

# What the facts about packages of Python environments begin with.
PACKAGE = "toolchain.package:"
# Environments that were made on different days differ in a hundred packages.
PACKAGES_SHOWN = 10


def pins(wanted: NodeWanted) -> Mapping[str, str]:
    """Return the packages that the inventory pins for a node, with their versions."""
    return (wanted.toolchain.packages if wanted.toolchain else None) or {}


def is_pinned_version(found: str | None, pin: str) -> bool:
    """Whether a version is the pinned one; 2.1.2+cu121 is 2.1.2 where the pin names no build."""
    if found is None:
        return False
    try:
        version, wanted = Version(found), Version(pin)
    except InvalidVersion:
        return found == pin
    return version == wanted or (wanted.local is None and Version(version.public) == wanted)


def unmet(environment: Environment, wanted: Mapping[str, str]) -> dict[str, str]:
    """Return the pins that an environment does not have."""
    return {
        name: pin
        for name, pin in wanted.items()
        if not is_pinned_version(environment.packages.get(name), pin)
    }


def is_unmet(node: NodeState, wanted: NodeWanted, name: str) -> bool:
    """Whether an environment of a node does not have the pin of a package."""
    pin = {each: version for each, version in pins(wanted).items() if each == name}
    found = node.nccl.environments.items()
    named = [each for prefix, each in found if prefix not in node.nccl.discovered]
    return any(unmet(each, pin) for each in named if each is not None)


@cache
def _of_jobs() -> tuple[str, ...]:
    return tuple(row["package"] for row in rows("job_packages.tsv"))


def is_of_jobs(name: str) -> bool:
    """Whether a package's version decides whether nodes work together, by job_packages.tsv."""
    return any(
        name.startswith(each[:-1]) if each.endswith("*") else name == each for each in _of_jobs()
    )


def names(nodes: Iterable[NodeState], prefix: str = "") -> list[str]:
    """Return the packages to compare between nodes; torch and NCCL are facts of their own.

    With `prefix`, those of one environment.
    """
    found = {
        name
        for node in nodes
        for folder, environment in node.nccl.environments.items()
        if environment is not None and prefix in ("", folder)
        for name in environment.packages
    }
    return sorted(name for name in found if name != "torch" and not name.startswith("nvidia-nccl-"))


def are_read(node: NodeState) -> bool:
    """Whether a node has environments, and all could be read: one that could not is a finding."""
    found = node.nccl.environments.values()
    return bool(found) and None not in found


def version(node: NodeState, name: str) -> str:
    """Return a package's version in the environments in their order; once if all have the same."""
    found = node.nccl.environments.values()
    versions = [each.packages.get(name, "none") for each in found if each is not None]
    return ", ".join(versions if len(set(versions)) > 1 else versions[:1])

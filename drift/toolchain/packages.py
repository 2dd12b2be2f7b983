"""Packages of Python environments: those that the inventory pins, and all others by name."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate, chain

from packaging.version import InvalidVersion, Version

from gpu_node.drift.tables import rows
from gpu_node.facts.nccl.state import Environment
from gpu_node.facts.node import NodeState
from gpu_node.inventories.wanted import NodeWanted

# What the facts about packages of Python environments begin with.
PACKAGE = "toolchain.package:"
# Environments that were made on different days differ in a hundred packages.
PACKAGES_SHOWN = 10
# How many packages of a node are not compared; with the folder where environments are compared so.
NOT_COMPARED = "toolchain.packages_not_compared"
# Two environments that were made apart have some hundred packages that the other one lacks.
_MOST_RARE = 1000


def pins(wanted: NodeWanted) -> Mapping[str, str]:
    """Return the packages that the inventory pins for a node, with their versions."""
    return (wanted.toolchain.packages if wanted.toolchain else None) or {}


def is_pinned_version(installed: str | None, pin: str) -> bool:
    """Whether a version is the pinned one; 2.1.2+cu121 is 2.1.2 where the pin names no build."""
    if installed is None:
        return False
    try:
        version, wanted = Version(installed), Version(pin)
    except InvalidVersion:
        return installed == pin
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
    environments = node.nccl.environments.items()
    named = [each for prefix, each in environments if prefix not in node.nccl.discovered]
    return any(unmet(each, pin) for each in named if each is not None)


@cache
def _of_jobs() -> tuple[frozenset[str], tuple[str, ...]]:
    """Return whole names, and what other names begin with."""
    listed = [row["package"] for row in rows("job_packages.tsv")]
    begun = tuple(each[:-1] for each in listed if each.endswith("*"))
    return frozenset(each for each in listed if not each.endswith("*")), begun


def is_of_jobs(name: str) -> bool:
    """Whether a package's version decides whether nodes work together, by job_packages.tsv."""
    whole, begun = _of_jobs()
    return name in whole or name.startswith(begun)


@dataclass(frozen=True)
class Compared:
    """The packages of an environment (`prefix` empty: of all) that are compared between nodes.

    `common`: those of jobs, and those that more than half of the nodes have. `rare`: others, of
    each node no more than its part of _MOST_RARE. torch and NCCL are facts of their own.
    """

    prefix: str
    common: frozenset[str]
    rare: frozenset[str]

    def left_out(self, node: NodeState) -> int:
        """Return how many packages of a node are not compared."""
        return len(_names(node, self.prefix) - self.common - self.rare)


def compared(nodes: Sequence[NodeState], prefixes: Iterable[str]) -> list[Compared]:
    """Return the packages to compare: of all environments together, and of each of `prefixes`.

    A user may have thousands that no other node has: each would be a row for all nodes. A part that
    one node does not need is for the others.
    """
    held = {
        prefix: [names for node in nodes if (names := _names(node, prefix))]
        for prefix in ("", *prefixes)
    }
    holders = {prefix: Counter(chain.from_iterable(each)) for prefix, each in held.items()}
    common = {prefix: _common(holders[prefix], len(each)) for prefix, each in held.items()}
    # Nodes that have the same package share its cost.
    claims = {
        (prefix, place): {name: 1 / holders[prefix][name] for name in names - common[prefix]}
        for prefix, each in held.items()
        for place, names in enumerate(each)
    }
    part = _part([sum(claim.values()) for claim in claims.values()])
    rare: dict[str, set[str]] = {prefix: set() for prefix in held}
    for (prefix, _), claim in claims.items():
        rare[prefix].update(_within(part, claim))
    return [Compared(prefix, common[prefix], frozenset(rare[prefix])) for prefix in held]


def _names(node: NodeState, prefix: str) -> set[str]:
    return {
        name
        for folder, environment in node.nccl.environments.items()
        if environment is not None and prefix in ("", folder)
        for name in environment.packages
        if name != "torch" and not name.startswith("nvidia-nccl-")
    }


def _common(holders: Mapping[str, int], nodes: int) -> frozenset[str]:
    whole, _ = _of_jobs()
    return frozenset(name for name, has in holders.items() if has * 2 > nodes or name in whole)


def _part(costs: Collection[float]) -> float:
    """Return how much each may have of _MOST_RARE: what some do not need is for the others."""
    left = float(_MOST_RARE)
    for waiting, cost in zip(range(len(costs), 0, -1), sorted(costs), strict=True):
        if cost * waiting > left:
            return left / waiting
        left -= cost
    return left


def _within(part: float, claim: Mapping[str, float]) -> Iterator[str]:
    """Yield names until their cost is the part, those of jobs first."""
    ordered = sorted(claim, key=lambda name: (not is_of_jobs(name), name))
    costs = accumulate(claim[name] for name in ordered)
    # The same numbers were added in another order.
    return (name for name, cost in zip(ordered, costs, strict=True) if cost <= part + 0.001)


def are_read(node: NodeState) -> bool:
    """Whether a node has environments, and all could be read: one that could not is a finding."""
    environments = node.nccl.environments.values()
    return bool(environments) and None not in environments


def version(node: NodeState, name: str) -> str:
    """Return a package's version in the environments in their order; once if all have the same."""
    environments = node.nccl.environments.values()
    versions = [each.packages.get(name, "none") for each in environments if each is not None]
    return ", ".join(versions if len(set(versions)) > 1 else versions[:1])

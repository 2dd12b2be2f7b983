"""A node among those of its cluster: what rules between nodes are given beside its own state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from facts.cluster import Peer
from facts.node import NodeState


@dataclass(frozen=True)
class Among:
    """The node's own name, every node of the inventory, and the states of those that were asked.

    A node of `nodes` that is not in `found` was not asked in this run, or gave no answer: nothing
    is known of it, and nothing may be concluded. `allow_deletions`: this run has
    `--data allow_deletions=true`.
    """

    name: str = ""
    nodes: tuple[Peer, ...] = ()
    found: Mapping[str, NodeState] = field(default_factory=dict)
    allow_deletions: bool = False

    @property
    def others(self) -> tuple[Peer, ...]:
        """Every node of the inventory but this one."""
        return tuple(each for each in self.nodes if each.name != self.name)

    @property
    def itself(self) -> Peer | None:
        """This node as the others reach it; None where no inventory names it."""
        return next((each for each in self.nodes if each.name == self.name), None)

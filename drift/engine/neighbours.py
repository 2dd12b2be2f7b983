"""A node among those of its cluster: what rules between nodes are given beside its own state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpu_node.facts.node import NodeState
from gpu_node.facts.probe.peers import Peer


@dataclass(frozen=True)
class Unlike:
    """A fact in which a node differs from nodes that it must agree with (`peers`, itself included).

    `value` is None where it could not be read. `values` has each value that was read on the peers,
    with the nodes that have it; `majority` is the one that more than half of them have. `compared`
    says in words which nodes the peers are.
    """

    fact: str
    value: str | None
    values: Mapping[str, tuple[str, ...]]
    majority: str | None = None
    compared: str = "all nodes"


@dataclass(frozen=True)
class Among:
    """The node's own name, every node of the inventory, and the states of those that were asked.

    A node of `nodes` that is not in `found` was not asked in this run, or gave no answer: nothing
    is known of it, and nothing may be concluded. `allow_deletions`: this run has
    `--data allow_deletions=true`. `unlike`: what this node may not differ in, and does.
    """

    name: str = ""
    nodes: tuple[Peer, ...] = ()
    found: Mapping[str, NodeState] = field(default_factory=dict)
    allow_deletions: bool = False
    unlike: tuple[Unlike, ...] = ()

    @property
    def others(self) -> tuple[Peer, ...]:
        """Every node of the inventory but this one."""
        return tuple(each for each in self.nodes if each.name != self.name)

    @property
    def itself(self) -> Peer | None:
        """This node as the others reach it; None where no inventory names it."""
        return next((each for each in self.nodes if each.name == self.name), None)

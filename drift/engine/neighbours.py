"""A node among those of its cluster: what rules between nodes are given beside its own state."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

from gpu_node.facts.ask.via import SSH
from gpu_node.facts.node import NodeState
from gpu_node.facts.probe.peers import Peer

T = TypeVar("T")


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
    `--data allow_deletions=true`. `unlike`: what this node may not differ in, and does. `made` has
    what `once` made; nodes that are judged together share it. `via`: how the answers came, one of
    VIAS or FILES.
    """

    name: str = ""
    nodes: tuple[Peer, ...] = ()
    found: Mapping[str, NodeState] = field(default_factory=dict)
    allow_deletions: bool = False
    unlike: tuple[Unlike, ...] = ()
    made: dict[Any, Any] = field(default_factory=dict, repr=False, compare=False)
    via: str = SSH

    def once(self, work: Callable[[Among], T]) -> T:
        """Return what `work` makes of `nodes` and `found` alone: it runs once for all nodes.

        Without it a rule that looks at every other node takes the square of their number.
        """
        key = work, id(self.nodes)
        if key not in self.made:
            self.made[key] = work(self)
        made: T = self.made[key]
        return made

    @cached_property
    def others(self) -> tuple[Peer, ...]:
        """Every node of the inventory but this one."""
        return tuple(each for each in self.nodes if each.name != self.name)

    @cached_property
    def itself(self) -> Peer | None:
        """This node as the others reach it; None where no inventory names it."""
        return next((each for each in self.nodes if each.name == self.name), None)

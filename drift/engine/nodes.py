"""A node among those of its cluster: what rules between nodes are given beside its own state."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date
from functools import cached_property, lru_cache
from typing import Any, TypeVar

from gpu_node.drift.engine.fact import Fact
from gpu_node.drift.engine.switches import is_on
from gpu_node.facts.ask.via import SSH
from gpu_node.facts.node import NodeState
from gpu_node.facts.probe.peers import Peer
from gpu_node.inventories.wanted import NodeWanted

T = TypeVar("T")


@dataclass(frozen=True)
class Unlike:
    """A fact in which a node differs from nodes that it must agree with (`peers`, itself included).

    `value` is None where it could not be read. `values` has each value that was read on the peers,
    with the nodes that have it; `majority` is the one that more than half of them have. `compared`
    says in words which nodes the peers are.
    """

    fact: Fact
    value: str | None
    values: Mapping[str, tuple[str, ...]]
    majority: str | None = None
    compared: str = "all nodes"


@dataclass(frozen=True)
class Newcomer:
    """A server that is to become a node, and what is known of it beforehand.

    `addresses` are what `address` stands for, which is itself where it is no name. `group` is the
    one that was given, `host_keys` those that were accepted. `pinned` are the host keys of the
    nodes by name; keys are as in known_hosts: type and key. `here` is what this machine's resolver
    says of the name (None: no answer).
    """

    address: str
    addresses: tuple[str, ...] = ()
    group: str | None = None
    host_keys: tuple[str, ...] = ()
    pinned: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    here: tuple[str, ...] | None = ()

    def is_at(self, address: str) -> bool:
        """Whether an address is one of the newcomer's, however it is spelt."""
        own = {plain(each) for each in (self.address, *self.addresses)}
        return plain(address) in own


@lru_cache(maxsize=1 << 14)
def plain(address: str) -> str:
    """Return an address without prefix and zone, in its shortest spelling; a name as it is."""
    try:
        return str(ipaddress.ip_interface(address.partition("%")[0]).ip)
    except ValueError:
        return address


@dataclass(frozen=True)
class Nodes:
    """The node's own name, every node of the inventory, and the states of those that were asked.

    A node of `peers` that is not in `states` was not asked in this run, or gave no answer: nothing
    is known of it, and nothing may be concluded. `allow_deletions`: this run has
    `--data allow_deletions=true`. `unlike`: what this node may not differ in, and does. `made` has
    what `once` made; nodes that are judged together share it. `via`: how the answers came, one of
    VIAS or FILES. `newcomer`: this node is not one yet, and what is known of it. `task`: what a
    command judges the nodes for, and `assumed` the keys that it sets itself, as an inventory has
    them. `day`: that of the judgement, in this machine's time zone.
    """

    name: str = ""
    peers: tuple[Peer, ...] = ()
    states: Mapping[str, NodeState] = field(default_factory=dict)
    allow_deletions: bool = False
    unlike: tuple[Unlike, ...] = ()
    made: dict[Any, Any] = field(default_factory=dict, repr=False, compare=False)
    via: str = SSH
    newcomer: Newcomer | None = None
    task: object = None
    assumed: Mapping[str, str] = field(default_factory=dict)
    day: date = field(default_factory=date.today)

    def once(self, work: Callable[[Nodes], T]) -> T:
        """Return what `work` makes of `peers` and `states` alone: it runs once for all nodes.

        Without it a rule that looks at every other node takes the square of their number.
        """
        key = work, id(self.peers)
        if key not in self.made:
            self.made[key] = work(self)
        made: T = self.made[key]
        return made

    @cached_property
    def others(self) -> tuple[Peer, ...]:
        """Every node of the inventory but this one."""
        return tuple(peer for peer in self.peers if peer.name != self.name)

    @cached_property
    def itself(self) -> Peer | None:
        """This node as the others reach it; None where no inventory names it."""
        return next((peer for peer in self.peers if peer.name == self.name), None)


@dataclass(frozen=True)
class Judged:
    """What is judged of a node: what was found, what is wanted, and who is around it.

    Of `nodes` the states are those of the nodes that are judged together, and maybe of others.
    """

    state: NodeState
    wanted: NodeWanted
    nodes: Nodes

    def is_on(self, rule_id: str) -> bool:
        """Whether the inventory leaves a rule on for the node."""
        return is_on(rule_id, self.wanted, self.nodes.day)

"""What came back from a node: light, as areas and rules are imported while nodes answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gpu_node.facts.ask.sudo import asks_password
from gpu_node.facts.ask.via import SSH
from gpu_node.facts.probe.peers import Peer
from gpu_node.inventories.wanted import NodeWanted

if TYPE_CHECKING:
    from gpu_node.facts.node import NodeState


@dataclass(frozen=True)
class Seen:
    """What came back from one node: a state, or the error that stands for it."""

    wanted: NodeWanted
    state: NodeState | None = None
    error: str | None = None
    # Whether the node answered at all: an answer that makes no sense is "unreadable".
    reached: bool = True
    # Every node of its cluster, itself among them.
    nodes: tuple[Peer, ...] = ()
    # Whether the inventory allows sudo.
    sudo: bool = False
    # Whether a run may delete what a copy has more than its source: --data allow_deletions=true.
    allow_deletions: bool = False
    # The Slurm job that read the state.
    slurm_job: int | None = None
    # How the answer came: one of VIAS, or FILES.
    via: str = SSH
    # What a command judges the node for, and the keys that it sets for that itself, as an inventory
    # has them.
    task: object = None
    assumed: Mapping[str, str] = field(default_factory=dict)

    @property
    def without_root(self) -> bool:
        """Whether the SSH user is known, is not root, and did not become root by sudo."""
        if self.state is None or self.state.limits.user is None:
            return False
        has_sudo = self.sudo and self.state.ssh.sudo_refusal is None
        return self.state.limits.user.uid != 0 and not has_sudo

    @property
    def lacks_password(self) -> bool:
        """Whether sudo asks for a password, and this command was given none."""
        return self.state is not None and asks_password(self.state.ssh.sudo_refusal)

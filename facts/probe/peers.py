"""The cluster as an inventory names it: what a probe may ask a node about the others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict

SSH_PORT = 22


class Peer(BaseModel):
    """A node as the others reach it: its name in the inventory, its address, its sshd's port."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    address: str
    port: int = SSH_PORT


def peers_of(data: Mapping[str, Any]) -> tuple[Peer, ...]:
    """Return the nodes that host data names, the node itself among them; none of a bare host."""
    return peers(data.get("cluster_nodes") or ())


def peers(named: Iterable[Peer | Mapping[str, Any]]) -> tuple[Peer, ...]:
    """Return peers from what an inventory or an operation's argument says of them."""
    return tuple(Peer.model_validate(each) for each in named)

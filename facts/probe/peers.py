"""The nodes of a cluster as an inventory names them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict

SSH_PORT = 22


class Peer(BaseModel):
    """A node as the others reach it: its name in the inventory, its address, its sshd's port.

    `gpus`: how many GPUs the inventory gives it; None where it names none.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    address: str
    port: int = SSH_PORT
    gpus: int | None = None


def peers_of(data: Mapping[str, Any]) -> tuple[Peer, ...]:
    """Return all nodes in host data, including the node itself; empty for a bare host."""
    return peers(data.get("cluster_nodes") or ())


def peers(named: Iterable[Peer | Mapping[str, Any]]) -> tuple[Peer, ...]:
    """Return peers from the values of an inventory or an operation's argument."""
    return tuple(Peer.model_validate(each) for each in named)

"""Named: what an inventory names for the probe to ask about, beside the node itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from facts.cluster import Peer, peers_of


@dataclass(frozen=True)
class Named:
    """Python environments by their folders, every node of the cluster, and who trains there.

    `deep` asks for what takes a while, too; `user` is empty where it is the SSH user. `address` is
    the node's own; `mesh` tells whether its logins to the others are asked for. `variables` are
    those of the environment that the inventory gives a value. `sudo` tells that the SSH user may
    become root.
    """

    environments: Sequence[str] = ()
    deep: bool = False
    nodes: Sequence[Peer] = ()
    user: str = ""
    address: str = ""
    mesh: bool = False
    variables: Sequence[str] = ()
    sudo: bool = False


def named_by(data: Mapping[str, Any], deep: bool = False) -> Named:
    """Return what a host's data names."""
    return Named(
        environments=tuple(data.get("nccl_environments") or ()),
        deep=deep,
        nodes=peers_of(data),
        user=data.get("launcher_user") or data.get("ssh_user") or "",
        address=data.get("ssh_hostname") or "",
        mesh=data.get("ssh_mesh") is True,
        variables=tuple(data.get("env") or ()),
        sudo=data.get("_sudo") is True,
    )

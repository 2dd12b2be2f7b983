"""Named: what an inventory names for the probe to ask about, beside the node itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from facts.cluster import Peer, peers_of

# The source of a workspace that is on the machine which asks, and on no node.
CONTROLLER = "controller"
_PACKAGES = ("driver_packages_apt", "driver_packages_rpm")


@dataclass(frozen=True)
class Copied:
    """The workspace: where it is wanted, where it comes from, and what of it is left out."""

    path: str
    origin: str
    source: str
    excludes: tuple[str, ...] = ()

    @property
    def paths(self) -> tuple[str, ...]:
        """Where a node has it: any may be the source."""
        return tuple(dict.fromkeys((self.path, self.origin)))


@dataclass(frozen=True)
class Named:
    """Python environments by their folders, every node of the cluster, and who trains there.

    `deep` asks for what takes a while, too; `user` is empty where it is the SSH user. `address` is
    the node's own; `mesh` tells whether its logins to the others are asked for. `variables` are
    those of the environment that the inventory gives a value. `sudo` tells that the SSH user may
    become root, `trains_apart` that `user` is another than the SSH user. `packages` are those of
    the driver, of every family.
    """

    environments: Sequence[str] = ()
    deep: bool = False
    nodes: Sequence[Peer] = ()
    user: str = ""
    address: str = ""
    mesh: bool = False
    variables: Sequence[str] = ()
    sudo: bool = False
    trains_apart: bool = False
    directories: Sequence[str] = ()
    workspace: Copied | None = None
    packages: Sequence[str] = ()


def named_by(data: Mapping[str, Any], deep: bool = False) -> Named:
    """Return what a host's data names."""
    return Named(
        environments=listed(data.get("nccl_environments") or ()),
        deep=deep,
        nodes=peers_of(data),
        user=data.get("launcher_user") or data.get("ssh_user") or "",
        address=data.get("ssh_hostname") or "",
        mesh=data.get("ssh_mesh") is True,
        variables=tuple(data.get("env") or ()),
        sudo=data.get("_sudo") is True,
        trains_apart=data.get("launcher_user") not in (None, "", data.get("ssh_user")),
        directories=tuple(each["path"] for each in data.get("directories") or ()),
        workspace=_copied(data),
        packages=tuple(each for key in _PACKAGES for each in listed(data.get(key) or ())),
    )


def _copied(data: Mapping[str, Any]) -> Copied | None:
    path = data.get("workspace_path")
    if not path:
        return None
    return Copied(
        path=path,
        origin=data.get("workspace_from") or path,
        source=data.get("workspace_source") or "",
        excludes=listed(data.get("workspace_exclude") or ()),
    )


def listed(words: Sequence[str] | str) -> tuple[str, ...]:
    """Return a list, or text with commas, which is how --data and a single folder are said."""
    return tuple(words.split(",") if isinstance(words, str) else words)

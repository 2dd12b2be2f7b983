"""Which machines the lab has, by what names and addresses they go, and where its files lie."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from lab.errors import LabError

NETWORK = "gpu-node-lab"
SUBNET = "10.168.144.0/24"
PREFIX = "gpu-node-lab-"
MIRROR = "mirror"
MIRROR_ADDRESS = "10.168.144.2"

REPOSITORY = Path(__file__).resolve().parents[1]
STATE = REPOSITORY / ".lab"
CLIENT_KEY = STATE / "id_ed25519"
KNOWN_HOSTS = STATE / "known_hosts"
# What signs the packages that the mirror serves.
REPOSITORY_KEY = STATE / "repository.asc"


@dataclass(frozen=True)
class Node:
    """One emulated server; `bare` means: a password for root and nobody's key."""

    name: str
    address: str
    interface: str
    family: Literal["rpm", "apt"]
    bare: bool = False

    @property
    def container(self) -> str:
        """The name podman knows it by."""
        return PREFIX + self.name


NODES = {
    node.name: node
    for node in (
        Node("a100-01", "10.168.144.4", "bond0", "rpm"),
        Node("v100-01", "10.168.144.5", "eno1", "rpm"),
        Node("v100-02", "10.168.144.6", "eno1", "apt", bare=True),
    )
}


def node(name: str) -> Node:
    """The node of that name, or a LabError that names those there are."""
    if name not in NODES:
        raise LabError(f"no node {name!r} in the lab; there are: {', '.join(NODES)}")
    return NODES[name]


def cache() -> Path:
    """Where the built tree, the mirror and the nodes' disks lie."""
    return Path(os.environ.get("GPU_NODE_LAB_CACHE") or "/var/cache/gpu-node-lab").absolute()


def password_file(name: str) -> Path:
    """Where the throw-away root password of a bare node is kept."""
    return STATE / f"{name}.password"

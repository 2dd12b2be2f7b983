"""The machines of the lab, their names and addresses, and the places of its files."""

import os
import shlex
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Literal

from gpu_node.lab.errors import LabError

NETWORK = "gpu-node-lab"
SUBNET = "10.168.144.0/24"
PREFIX = "gpu-node-lab-"
MIRROR = "mirror"
MIRROR_ADDRESS = "10.168.144.2"

REPOSITORY = Path(__file__).resolve().parents[1]
STATE = REPOSITORY / ".lab"
CLIENT_KEY = STATE / "id_ed25519"
KNOWN_HOSTS = STATE / "known_hosts"
# The key that signs the mirror's packages.
REPOSITORY_KEY = STATE / "repository.asc"


@dataclass(frozen=True)
class Node:
    """One emulated server; `bare` means: a password for root and no authorised key."""

    name: str
    address: str
    interface: str
    family: Literal["rpm", "apt"]
    bare: bool = False

    @property
    def container(self) -> str:
        """Its name in podman."""
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
    """Return the node of that name; LabError with the known names otherwise."""
    if name not in NODES:
        close = get_close_matches(name, NODES, n=1)
        hint = f", did you mean {close[0]}?" if close else ""
        allowed = ", ".join(NODES)
        raise LabError(f"NODE: found {name!r} (no such node of the lab{hint}); allowed: {allowed}")
    return NODES[name]


def inventory() -> str:
    """Return the path of the lab's inventory for a command, from the current folder."""
    file = REPOSITORY / "inventories" / "lab.py"
    here = Path.cwd()
    return shlex.quote(str(file.relative_to(here) if file.is_relative_to(here) else file))


def cache() -> Path:
    """Return the folder of the built tree, the mirror and the nodes' disks."""
    return Path(os.environ.get("GPU_NODE_LAB_CACHE") or "/var/cache/gpu-node-lab").absolute()


def password_file(name: str) -> Path:
    """Return the file of a bare node's throw-away root password."""
    return STATE / f"{name}.password"

"""The nodes of a benchmark: their names and loopback addresses, and inventories of the first N."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from bench.places import BIN

# Addresses of 127/8 need no set-up; 127.0.1.1 is the first of them here.
_IN_A_BLOCK = 250
MOST = 4 * _IN_A_BLOCK
_SITE = """\
from gpu_node.inventories.groups import groups_of

globals().update(groups_of(__file__))
"""
# The Python environment in each stored answer is this project's own.
_ENVIRONMENT = BIN.parent


@dataclass(frozen=True)
class Node:
    """A node: its name in the inventories, and the address that its sshd has.

    `second` is an address that is not of loopback, which its name has for the others.
    """

    name: str
    address: str

    @property
    def second(self) -> str:
        return self.address.replace("127.0.", "10.77.", 1)


@dataclass(frozen=True)
class Login:
    """How to log in to all nodes: the user's key, the pinned host keys, and the port of sshd."""

    key: Path
    known_hosts: Path
    port: int
    user: str = "root"


def nodes(number: int) -> list[Node]:
    """Return the first nodes. Raises ValueError for more than there are addresses."""
    if not 1 <= number <= MOST:
        raise ValueError(f"{number} nodes; allowed: 1 to {MOST}")
    return [Node(f"node-{each + 1:03}", _address(each)) for each in range(number)]


def _address(number: int) -> str:
    block, rest = divmod(number, _IN_A_BLOCK)
    return f"127.0.{1 + block}.{1 + rest}"


def write_inventory(folder: Path, number: int, login: Login) -> Path:
    """Write a cluster file of the first nodes into a folder; return the inventory, site.py."""
    ssh = {"user": login.user, "key": str(login.key), "port": login.port}
    wanted = {
        "ssh": {**ssh, "known_hosts": str(login.known_hosts)},
        "shm": {"size": "8G"},
        "env": {"OMP_NUM_THREADS": "8"},
        "nccl": {"environments": [str(_ENVIRONMENT)]},
        "gpu": {"model": "V100", "count": 2},
    }
    return write_site(folder, nodes(number), wanted)


def write_site(folder: Path, hosts: Sequence[Node], wanted: Mapping[str, object]) -> Path:
    """Write a cluster file of nodes that are to be alike; return the inventory, site.py."""
    folder.mkdir(parents=True, exist_ok=True)
    site = {
        "cluster": "bench",
        "defaults": dict(wanted),
        "groups": {"gpu": None},
        "hosts": {host.name: {"address": host.address, "group": "gpu"} for host in hosts},
    }
    text = yaml.safe_dump(site, sort_keys=False, default_flow_style=None, width=1000)
    (folder / "site.yml").write_text(text)
    (folder / "site.py").write_text(_SITE)
    return folder / "site.py"


def make_key(file: Path) -> str:
    """Make a key pair without a passphrase; return the public key's type and key."""
    file.unlink(missing_ok=True)
    words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "bench", "-f", str(file)]
    subprocess.run(words, check=True)
    kind, key, *_ = file.with_suffix(".pub").read_text().split()
    return f"{kind} {key}"


def pin(file: Path, hosts: Sequence[Node], port: int, host_key: str) -> None:
    """Write known_hosts for nodes that share a host key."""
    file.write_text("".join(f"[{host.address}]:{port} {host_key}\n" for host in hosts))

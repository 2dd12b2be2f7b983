"""A copy of a workspace between two folders, with a stand-in for ssh: what its tests share."""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import cast

from pyinfra.api import Host, State

from gpu_node.deploy.workspace.rsync import Removal, send
from gpu_node.facts.probe.peers import Peer
from gpu_node.facts.workspace.state import Tree, listing, tree

RUN = "20261122T204829Z-0a1b2c"
PEER = Peer(name="v100-01", address="192.0.2.11", port=2222)


class Wire:
    """In the place of ssh: rsync's other end runs here, in a folder."""

    data = SimpleNamespace(dict=lambda: {"ssh_user": "train", "ssh_key": "/k", "ssh_port": 2222})
    name, print_prefix = "v100-01", "[v100-01] "


def sent(source: Path, target: Path, removal: Removal | None = None) -> bool:
    """Copy from the controller's folder."""
    printed = ("controller", str(source), str(target), ["cache/*"], "3.2.7", PEER.model_dump(), 10)
    return send(State(), cast(Host, Wire()), *printed, removal or Removal())


def listed(folder: Path) -> Tree:
    """What the rules would see of a folder."""
    words = [*listing(["cache/*"]), f"{folder}/"]
    return tree(subprocess.run(words, capture_output=True, text=True).stdout + "end 0")

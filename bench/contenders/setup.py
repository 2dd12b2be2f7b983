"""What every contender gets: the same nodes, the same login, the same script."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.nodes.cluster import Login, Node


@dataclass(frozen=True)
class Setup:
    """Served nodes: `inventory` is gpu-node's, `script` its probe, `folder` is for files."""

    hosts: Sequence[Node]
    login: Login
    inventory: Path
    script: Path
    folder: Path

"""What is seen of the lab's nodes during a round: the contents of files, and what is left."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gpu_node.lab import disks
from gpu_node.lab.machine import as_root, sudo
from tests.chaos import watch

# The files that a converge, an onboarding or dkms may change; not each exists.
FILES = (
    "/etc/docker/daemon.json",
    "/etc/fstab",
    "/etc/hosts",
    "/etc/nccl.conf",
    "/etc/pam.d/sshd",
    "/etc/security/limits.d/99-gpu-node.conf",
    "/etc/ssh/ssh_config.d/10-gpu-node.conf",
    "/etc/ssh/ssh_known_hosts",
    "/etc/ssh/sshd_config",
    "/etc/ssh/sshd_config.d/00-gpu-node.conf",
    "/root/.bashrc",
    "/root/.ssh/authorized_keys",
    "/root/.ssh/id_ed25519",
    "/root/.ssh/id_ed25519.pub",
    "/usr/src/nvidia-535.154.05/dkms.conf",
)
# Paths that differ between two converges that nothing disturbs; and backups, which stay.
DIFFERS = re.compile(
    r"^(dev|proc|sys|var/log|var/cache)(/|$)|(^|/)__pycache__(/|$)|^var/backups/gpu-node/"
)
# How long a watcher may take to end.
SECONDS = 60


@dataclass
class Seen:
    """The contents that each file had, by sha256, and the files that were written in place."""

    sums: dict[str, set[str]] = field(default_factory=dict)
    written: set[str] = field(default_factory=set)

    def add(self, lines: Sequence[str], root: str = "") -> None:
        """Add what a watcher has printed."""
        for line in lines:
            event = json.loads(line)
            if event["event"] == "ready":
                continue
            path = event["file"].removeprefix(root)
            self.sums.setdefault(path, set()).add(event["sum"])
            if event["event"] == "written":
                self.written.add(path)

    def partial(self, before: Mapping[str, str], after: Mapping[str, str]) -> set[str]:
        """Return the files that had another content than the one before and the one after."""
        known = {path: {watch.NOTHING, before[path], after[path]} for path in self.sums}
        return self.written | {path for path, sums in self.sums.items() if sums - known[path]}


class Watcher:
    """Watches the files of a node from outside of it, so that it outlives the node."""

    def __init__(self, node: str) -> None:
        self._root = str(disks.root(node))
        files = [f"{self._root}{path}" for path in FILES]
        self._process = subprocess.Popen(
            [*sudo(), sys.executable, watch.__file__, *files],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        self._first: list[str] = []
        while not self._first or "ready" not in self._first[-1]:
            self._first.append(self._process.stdout.readline())
            assert self._first[-1], f"{node}: the watcher has ended"

    def end(self, seen: Seen) -> None:
        """End it, and add what it has seen; a pipe holds some hundred changes."""
        rest, _ = self._process.communicate("\n", timeout=SECONDS)
        seen.add([*self._first, *rest.splitlines()], self._root)


def sums(node: str) -> dict[str, str]:
    """Return the sha256 of each of the files."""
    script = 'cd "$1" && shift && for f; do { sha256sum ./"$f" || sha256sum; } 2>/dev/null; done'
    found = as_root(["sh", "-c", script, "sh", disks.root(node), *FILES]).stdout
    return {path: line.split()[0] for path, line in zip(FILES, found.splitlines(), strict=True)}


def names(node: str) -> set[str]:
    """Return the paths of all that was written to a node's disk since it was made."""
    upper = disks.home(node) / "upper"
    # A character device is a whiteout: what was removed there.
    listed = as_root(["find", upper, "-mindepth", "1", "!", "-type", "c", "-printf", r"%P\0"])
    paths = listed.stdout.split("\0")
    return {path for path in paths if path and not DIFFERS.search(path)}

"""What is seen of the lab's nodes during a round: the contents of files, and what is left."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from base64 import b64decode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gpu_node.facts.probe.managed_block import NODES
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
    # What a killed compiler leaves, which the next boot clears.
    r"|^tmp/cc\w{6}\.\w+$"
)
# How long a watcher may take to end.
SECONDS = 60


@dataclass
class Seen:
    """The contents that each file had, and the files that were written in place."""

    contents: dict[str, set[bytes]] = field(default_factory=dict)
    written: set[str] = field(default_factory=set)

    def add(self, lines: Sequence[str], root: str = "") -> None:
        """Add what a watcher has printed."""
        for line in lines:
            event = json.loads(line)
            if event["event"] == "ready":
                continue
            path = event["file"].removeprefix(root)
            self.contents.setdefault(path, set()).add(b64decode(event["content"]))
            if event["event"] == "written":
                self.written.add(path)

    def partial(self, before: Mapping[str, bytes], after: Mapping[str, bytes]) -> set[str]:
        """Return the files that had a content that is not whole."""
        return self.written | {
            path
            for path, contents in self.contents.items()
            if not all(is_whole(each, before[path], after[path]) for each in contents)
        }


def is_whole(content: bytes, before: bytes, after: bytes) -> bool:
    """Whether it is the content before or after, or none, or that before with a part of our lines.

    A run that not all nodes have survived writes the lines of those that have.
    """
    if content in (b"", before, after):
        return True
    users = [NODES.remove(each.decode("latin-1")) for each in (content, before)]
    lines, final = _lines(content), _lines(after)
    return bool(lines) and users[0] == users[1] and set(lines) <= set(final)


def _lines(content: bytes) -> list[str]:
    blocks = NODES.find(content.decode("latin-1"))
    return [line for each in blocks for line in each.body.splitlines()]


class Watcher:
    """Watches the files of a node from outside of it, so that it outlives the node."""

    def __init__(self, node: str) -> None:
        self._root = str(disks.root(node))
        self._lines: list[str] = []
        files = [f"{self._root}{path}" for path in FILES]
        self._process = subprocess.Popen(
            [*sudo(), sys.executable, watch.__file__, *files],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            # It ends with its stdin, and not by the signal that ends the lane.
            start_new_session=True,
        )
        self._is_ready = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        assert self._is_ready.wait(SECONDS), f"{node}: the watcher has not begun"

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.append(line)
            if '"ready"' in line:
                self._is_ready.set()

    def end(self, seen: Seen) -> None:
        """End it, and add what it has seen."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.close()
        code = self._process.wait(SECONDS)
        self._reader.join(SECONDS)
        assert code == 0, "the watcher has failed"
        seen.add(self._lines, self._root)


def contents(node: str) -> dict[str, bytes]:
    """Return the content of each of the files; empty where it does not exist."""
    script = 'cd "$1" && shift && for f; do base64 -w 0 "./$f" 2>/dev/null; echo; done'
    found = as_root(["sh", "-c", script, "sh", disks.root(node), *FILES]).stdout
    return dict(zip(FILES, map(b64decode, found.splitlines()), strict=True))


def names(node: str) -> set[str]:
    """Return the paths of all that was written to a node's disk since it was made."""
    upper = disks.home(node) / "upper"
    # A character device is a whiteout: what was removed there.
    listed = as_root(["find", upper, "-mindepth", "1", "!", "-type", "c", "-printf", r"%P\0"])
    paths = listed.stdout.split("\0")
    return {path for path in paths if path and not DIFFERS.search(path)}

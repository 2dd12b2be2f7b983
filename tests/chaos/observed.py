"""What is seen of nodes during a round: the contents of files, and what is left."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from base64 import b64decode
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol

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
    # dpkg's journal, which its next call takes up.
    r"|^var/lib/dpkg/updates/"
    # What a killed compiler leaves, which the next boot clears, and a killed dracut.
    r"|^tmp/cc\w{6}\.\w+$|^var/tmp/dracut\.\w{6}(/|$)"
)
# What a run makes beside a file, or to work in: none may stay, not even of a run that ends well.
TEMPORARY = re.compile(r"(^|/)\.[^/]*gpu-node[^/]*(/|$)|^(var/)?tmp/([^/]*[^a-z/])?gpu-node")
# How long a watcher may take to end.
SECONDS = 60


# None where a file does not exist.
Contents = Mapping[str, bytes | None]


@dataclass
class Seen:
    """The contents that each file had, and the files that were written in place."""

    contents: dict[str, set[bytes | None]] = field(default_factory=dict)
    written: set[str] = field(default_factory=set)

    def add(self, lines: Sequence[str], root: str = "") -> None:
        """Add what a watcher has printed."""
        for line in lines:
            event = json.loads(line)
            if event["event"] == "ready":
                continue
            path = event["file"].removeprefix(root)
            content = event["content"]
            found = None if content is None else b64decode(content)
            self.contents.setdefault(path, set()).add(found)
            if event["event"] == "written":
                self.written.add(path)

    def partial(self, before: Contents, after: Contents) -> set[str]:
        """Return the files that had a content that is not whole, or were missing meanwhile."""
        return self.written | {
            path
            for path, contents in self.contents.items()
            if not all(is_whole(each, before[path], after[path]) for each in contents)
        }


def is_whole(content: bytes | None, before: bytes | None, after: bytes | None) -> bool:
    """Whether it is the content before or after, or that before with a part of our lines.

    A run that not all nodes have survived writes the lines of those that have.
    """
    if content in (before, after):
        return True
    if content is None or after is None:
        return False
    users = [NODES.remove(each.decode("latin-1")) for each in (content, before or b"")]
    lines, final = _lines(content), _lines(after)
    return bool(lines) and users[0] == users[1] and set(lines) <= set(final)


def _lines(content: bytes) -> list[str]:
    blocks = NODES.find(content.decode("latin-1"))
    return [line for each in blocks for line in each.body.splitlines()]


class Watcher:
    """A program that watches the files of a node, whose disk has its root there."""

    def __init__(self, program: Sequence[str], root: str = "") -> None:
        self._root = root
        self._lines: list[str] = []
        self._process = subprocess.Popen(
            [*program, *(f"{root}{path}" for path in FILES)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            # It ends with its stdin, and not by the signal that ends the lane.
            start_new_session=True,
        )
        self._is_ready = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        assert self._is_ready.wait(SECONDS), "the watcher has not begun"

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
        assert code == 0, "the watcher has failed"
        self._add(seen)

    def lose(self, seen: Seen) -> None:
        """Add what it has seen until the power failed of its machine, or the round was ended."""
        assert self._process.stdin is not None
        # Without its stdin it ends, also as root; its machine may be gone.
        with suppress(OSError):
            self._process.stdin.close()
        with suppress(PermissionError):
            self._process.kill()
        self._process.wait(SECONDS)
        self._add(seen)

    def _add(self, seen: Seen) -> None:
        self._reader.join(SECONDS)
        seen.add(self._lines, self._root)


class Server(Protocol):
    """A node whose files are seen."""

    name: str

    def contents(self) -> dict[str, bytes | None]:
        """Return the content of each of the files; None where it does not exist."""

    def names(self) -> set[str]:
        """Return the paths of all that is on its disk and counts."""

    def watcher(self) -> Watcher:
        """Begin to watch its files."""


class Container:
    """A node of the lab. It is watched from outside of it, so that the watcher outlives it."""

    def __init__(self, name: str) -> None:
        self.name = name

    def contents(self) -> dict[str, bytes | None]:
        """Return the content of each of the files; None where it does not exist."""
        return decoded(as_root(["sh", "-c", CONTENTS, "sh", disks.root(self.name)]).stdout)

    def names(self) -> set[str]:
        """Return the paths of all that was written to its disk since it was made."""
        upper = disks.home(self.name) / "upper"
        # A character device is a whiteout: what was removed there.
        listed = as_root(["find", upper, "-mindepth", "1", "!", "-type", "c", "-printf", r"%P\0"])
        return counted(listed.stdout)

    def watcher(self) -> Watcher:
        """Begin to watch its files."""
        program = [*sudo(), sys.executable, watch.__file__]
        return Watcher(program, str(disks.root(self.name)))


# Prints a line for each of the files below a folder.
CONTENTS = (
    f'cd "$1" && for f in {" ".join(FILES)}; do'
    ' { [ ! -e ".$f" ] || { printf =; base64 -w 0 ".$f"; }; } 2>/dev/null; echo; done'
)


def decoded(printed: str) -> dict[str, bytes | None]:
    """Return what CONTENTS has printed."""
    lines = printed.removesuffix("\n").split("\n")
    found = [b64decode(line[1:]) if line else None for line in lines]
    return dict(zip(FILES, found, strict=True))


def left(after: set[str], usual: set[str]) -> list[str]:
    """Return the paths that no undisturbed run leaves, and those that none should leave."""
    return sorted(path for path in after if path not in usual or TEMPORARY.search(path))


def counted(listed: str) -> set[str]:
    """Return the paths that count, of those that find has printed."""
    return {path for path in listed.split("\0") if path and not DIFFERS.search(path)}

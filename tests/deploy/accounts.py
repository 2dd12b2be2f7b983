"""Folders of several accounts, and nodes that copy between them: what tests of copies share."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from types import SimpleNamespace
from typing import cast

import pytest
from pyinfra.api import State

from gpu_node.deploy.workspace import rsync as copying
from gpu_node.deploy.workspace import rsync_run
from gpu_node.deploy.workspace.rsync_run import as_trainer

AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="another user is needed")
# Accounts of every system.
OWNER, OTHER = "daemon", "bin"
# The user whose folders root meets: apt's account, which every Debian and Ubuntu has.
USER = "_apt"
USER_ID = pwd.getpwnam(USER).pw_uid


class Node:
    """The node that receives: pyinfra logs in as root, who trains is root."""

    name, print_prefix = "v100-01", "[v100-01] "

    def __init__(self, **data: object) -> None:
        self.data = SimpleNamespace(dict=lambda: {"ssh_user": "root", **data})


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder of root's that others may enter; pytest's own are closed."""
    folder = Path(mkdtemp(prefix="gpu-node-closed-", dir="/var/tmp"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def secret(place: Path) -> Path:
    """A folder of root's that no other user may enter."""
    folder = place / "secret"
    folder.mkdir(mode=0o700)
    (folder / "shadow").write_text("root:hash")
    return folder


def made(folder: Path, owner: str = "root", **files: str) -> Path:
    """A folder with files, all of an owner."""
    folder.mkdir()
    for name, content in files.items():
        (folder / name).write_text(content)
    for each in (folder, *folder.iterdir()):
        shutil.chown(each, owner)
    return folder


@dataclass(eq=False)
class Nodes:
    """A stand-in for pyinfra's state: a run is kept by its identity."""

    inventory: SimpleNamespace
    elsewhere: dict[str, str]


@pytest.fixture
def nodes(monkeypatch: pytest.MonkeyPatch) -> State:
    """A source whose commands run here, where root logs in and trains."""

    elsewhere: dict[str, str] = {}

    def on(state: object, source: str, argv: list[str], seconds: float) -> Iterator[str | int]:
        # The source has it at the same path, and is this machine, too.
        for index in {"sh": (2, -2), "rsync": (-2,), "du": (-1,)}[argv[0]]:
            for path, there in elsewhere.items():
                argv[index] = argv[index].replace(path, there)
        words = as_trainer("", argv)
        done = subprocess.run(["sh", "-c", words], capture_output=True, text=True)
        yield from (done.stdout + done.stderr).splitlines()
        yield done.returncode

    monkeypatch.setattr(copying, "on_node", on)
    monkeypatch.setattr(rsync_run, "on_node", on)
    inventory = SimpleNamespace(get_host=lambda _: Node())
    return cast(State, Nodes(inventory=inventory, elsewhere=elsewhere))

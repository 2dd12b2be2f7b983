"""Whether a folder's mount of /etc/fstab is mounted, asked really, among own mounts."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from pyinfra.api import StringCommand

from gpu_node.facts.workspace.mounts import ASK, parse
from gpu_node.facts.workspace.state import parse_tree
from tests.node_scripts import run_apart

FSTAB = """
# /dev/sdc /data/ws ext4 defaults 0 0
/dev/sda1 / ext4 defaults 0 0
/dev/sdb1 {top}/data/ xfs defaults 0 0
UUID=1 {top}/data/ws/cache ext4 noauto 0 0
/dev/sdd1 {top}/dat ext4 defaults 0 0
/dev/sdd2 none swap sw 0 0
"""
DATA = "mkdir -p {top}/data/ws && "
OWN = "unmounted /data\nmountpoint\n"
MOUNTED = f"{DATA}mount -t tmpfs tmpfs {{top}}/data && mkdir {{top}}/data/ws"


def asked(tmp_path: Path, shell: str, before: str, path: str, command: str = "") -> str:
    """Answer for a folder on a machine with this fstab and these mounts."""
    (tmp_path / "fstab").write_text(FSTAB.format(top=tmp_path))
    mount = f"[ -e /etc/fstab ]; mount --bind {tmp_path}/fstab /etc/fstab"
    done = run_apart(
        StringCommand(command or f"set -u\n{ASK}mounts {path.format(top=tmp_path)}"),
        shell,
        f"{mount}; {before.format(top=tmp_path)}",
    )
    assert (done.code, done.err) == (0, "")
    return done.out.replace(str(tmp_path), "")


@pytest.mark.parametrize(
    ("before", "path", "says"),
    [
        (f"{DATA}:", "{top}/data/ws", "unmounted /data\n"),
        (f"{DATA}:", "{top}/data", "unmounted /data\n"),
        (":", "{top}/data/none", "unmounted /data\n"),
        (MOUNTED, "{top}/data/ws", ""),
        (MOUNTED, "{top}/data", "mountpoint\n"),
        (MOUNTED, "{top}/data/ws/cache/a", "unmounted /data/ws/cache\n"),
        (f"{DATA}mount -t tmpfs tmpfs {{top}}/data/ws", "{top}/data/ws", OWN),
        ("mkdir {top}/other", "{top}/other", ""),
        (f"{DATA}ln -s data/ws {{top}}/link", "{top}/link", "unmounted /data\n"),
    ],
)
def test_a_mount_of_fstab(tmp_path: Path, shell: str, before: str, path: str, says: str) -> None:
    """The nearest mount point above a folder counts, wherever a link leads; names are whole."""
    assert asked(tmp_path, shell, before, path) == says


def test_the_controllers_source(tmp_path: Path) -> None:
    """It is asked the same of its own folder."""
    code = (
        "from gpu_node.facts.workspace.source import own_tree; "
        "from gpu_node.facts.probe.request import Copied; "
        f"print(own_tree(Copied('/w', '{tmp_path}/data/ws', 'controller')).unmounted)"
    )
    command = f'cd {Path(__file__).parents[2]} && {sys.executable} -c "{code}"'
    assert asked(tmp_path, "dash", DATA + ":", "", command) == "/data\n"


def test_what_stands_before_the_list() -> None:
    """Whether the folder is there or not."""
    assert parse("unmounted /data\nabsent") == ({"unmounted": "/data"}, "absent")
    tree = parse_tree("unmounted /data\nmountpoint\nunlisted")
    assert (tree.exists, tree.unmounted, tree.is_mount) == (True, "/data", True)

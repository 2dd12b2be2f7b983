"""The scripts around a user's SSH files, run really: nothing is overwritten, nothing left open."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from pyinfra.api import StringCommand

from gpu_node.deploy.engine.scripts import as_run, script
from gpu_node.deploy.files.replace import replace
from gpu_node.facts.probe.file_bytes import FileContent
from gpu_node.lab.machine import as_root
from tests.node_scripts import Ended, run, tree


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with nothing in it."""
    home = tmp_path / "it's home"
    home.mkdir()
    return home


def inner(name: str, home: Path, **variables: str) -> StringCommand:
    """A script that runs as the training user, without the change of user."""
    return StringCommand(as_run(name, home=str(home), **variables))


def key(home: Path, shell: str) -> Ended:
    """Make the key."""
    return run(inner("ssh_key", home, comment="gpu-node:a100-01"), shell)


def test_a_key_is_made(home: Path, shell: str) -> None:
    """A pair that fits, closed to others, with its comment; and nothing beside it."""
    done = key(home, shell)
    assert (done.code, done.out, done.err) == (0, "", "")
    folder = home / ".ssh"
    assert sorted(path.name for path in folder.iterdir()) == ["id_ed25519", "id_ed25519.pub"]
    modes = {path.name: path.stat().st_mode & 0o777 for path in [folder, *folder.iterdir()]}
    assert modes == {".ssh": 0o700, "id_ed25519": 0o600, "id_ed25519.pub": 0o644}
    asked = ["ssh-keygen", "-y", "-P", "", "-f", str(folder / "id_ed25519")]
    public = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
    assert (folder / "id_ed25519.pub").read_text().split()[:2] == public.split()[:2]
    assert public.strip().endswith(" gpu-node:a100-01")


def test_a_key_that_is_there_stays(home: Path, shell: str) -> None:
    """Whatever it is: it may open something else."""
    (home / ".ssh").mkdir()
    (home / ".ssh" / "id_ed25519").write_text("a user's")
    before = tree(home)
    assert key(home, shell).code == 0
    assert tree(home) == before


def test_a_key_of_a_killed_run_is_removed(home: Path, shell: str) -> None:
    """Not that of a run that still works, and not one of another node that shares the home."""
    (home / ".ssh").mkdir()
    own, ended = os.uname().nodename, subprocess.Popen(["true"])
    ended.wait()
    kept = {f".id_ed25519.gpu-node-{each}" for each in (f"{own}-{os.getpid()}", f"{own}-2-1")}
    left = [f".id_ed25519.gpu-node-{own}-{ended.pid}{suffix}" for suffix in ("", ".pub")]
    for name in (*kept, *left):
        (home / ".ssh" / name).write_text("half")
    assert key(home, shell).code == 0
    assert {*tree(home / ".ssh")} == {*kept, "id_ed25519", "id_ed25519.pub"}


def test_a_public_key_without_its_private_one(home: Path, shell: str) -> None:
    """It is kept under another name, and the log says so."""
    (home / ".ssh").mkdir()
    (home / ".ssh" / "id_ed25519.pub").write_text("ssh-ed25519 AAAA zhang\n")
    done = key(home, shell)
    assert (done.code, done.err) == (0, "")
    assert "it is " in done.out and "id_ed25519.pub.before-gpu-node now" in done.out
    files = tree(home / ".ssh")
    assert files["id_ed25519.pub.before-gpu-node"] == b"ssh-ed25519 AAAA zhang\n"
    assert files["id_ed25519.pub"].endswith(b" gpu-node:a100-01\n")


def test_no_folder_can_be_made(home: Path, shell: str) -> None:
    """The error has the reason, and nothing is left."""
    (home / ".ssh").write_text("a file")
    done = key(home, shell)
    assert done.code == 1
    assert "its folder cannot be made" in done.err
    assert tree(home) == {".ssh": b"a file"}


def test_new_authorized_keys(home: Path, backups: Path, shell: str) -> None:
    """File and folder are closed to others."""
    file = home / ".ssh" / "authorized_keys"
    absent = FileContent(exists=False, text="", problem="")
    done = run(replace(str(file), absent, "key\n", mode="600"), shell)
    assert (done.code, done.err, file.read_text()) == (0, "", "key\n")
    assert [each.stat().st_mode & 0o777 for each in (file.parent, file)] == [0o700, 0o600]


def modes(home: Path, shell: str, uid: int) -> Ended:
    """Close the files of the user with that uid."""
    return run(script("ssh_modes", user="root", uid=str(uid), home=str(home)), shell)


def test_files_are_closed(home: Path, shell: str) -> None:
    """As far as is asked for, and no further: who may read what others wrote may still do so."""
    folder = home / ".ssh"
    folder.mkdir()
    for name in ("authorized_keys", "id_ed25519", "config"):
        (folder / name).touch(0o666)
        (folder / name).chmod(0o666)
    folder.chmod(0o777)
    home.chmod(0o775)
    assert modes(home, shell, home.stat().st_uid).code == 0
    found = {path.name: path.stat().st_mode & 0o777 for path in [home, folder, *folder.iterdir()]}
    assert found == {
        home.name: 0o755,
        ".ssh": 0o755,
        "authorized_keys": 0o644,
        "id_ed25519": 0o600,
        "config": 0o666,
    }


def test_nothing_is_given_away_through_a_link(home: Path, shell: str, tmp_path: Path) -> None:
    """A user who links another user's file as a key does not get it."""
    (home / ".ssh").mkdir()
    others = tmp_path / "others"
    others.touch(0o600)
    as_root(["chown", "12345", others])
    (home / ".ssh" / "id_ed25519").symlink_to(others)
    done = modes(home, shell, home.stat().st_uid)
    assert done.code == 1
    assert "is a link: give what it leads to to root manually" in done.err
    assert others.stat().st_uid == 12345


AS_USER = 'as_user() { sh -c "$1"; }'


def test_another_user(shell: str) -> None:
    """The script is run by what the node has for that, and its end is the end."""
    done = run(script("as_user", user="x", as_user=AS_USER, run='echo "it\'s $0"; exit 3'), shell)
    assert (done.code, done.out) == (3, "it's sh\n")


@pytest.mark.parametrize("shell", ["dash", "bash-posix"])
def test_a_users_process_that_does_not_end(shell: str) -> None:
    """It may be the user who stops it: the run goes on without. Busybox has no such timeout(1)."""
    command = script("as_user", user="x", as_user=AS_USER, run="sleep 99 >/dev/null 2>&1")
    soon = command.get_raw_value().replace("as_user_within 300", "as_user_within 1")
    done = run(StringCommand(soon), shell)
    assert done.code != 0

"""Where a path leads in a folder that other users may write, too."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import click
import pytest

from gpu_node.cli.output import check_given, save
from gpu_node.inventories import atomic_write, writers

UID = 12345
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")


@pytest.fixture
def open_folder(tmp_path: Path) -> Path:
    """A folder such as /tmp, beside one of root's."""
    (tmp_path / "own").mkdir()
    (tmp_path / "own/file").write_text("root's")
    made = tmp_path / "open"
    made.mkdir()
    made.chmod(0o1777)
    return made


def _theirs(path: Path) -> Path:
    os.chown(path, UID, UID, follow_symlinks=False)
    return path


def _link(folder: Path) -> str:
    (folder / "x").symlink_to("../own/file")
    _theirs(folder / "x")
    return "x"


def _link_above(folder: Path) -> str:
    (folder / "x").symlink_to("../own")
    _theirs(folder / "x")
    return "x/new"


def _file(folder: Path) -> str:
    (folder / "x").touch()
    _theirs(folder / "x").chmod(0o666)
    return "x"


def _pipe(folder: Path) -> str:
    os.mkfifo(folder / "x")
    _theirs(folder / "x").chmod(0o666)
    return "x"


def _in_theirs(folder: Path) -> str:
    (folder / "theirs").mkdir()
    _theirs(folder / "theirs")
    (folder / "theirs/x").symlink_to("../../own/file")
    _theirs(folder / "theirs/x")
    return "theirs/x"


def _by_own_link(folder: Path) -> str:
    (folder / "x").symlink_to("y")
    (folder / "y").touch()
    _theirs(folder / "y")
    return "x"


def _of_a_group(folder: Path) -> str:
    folder.chmod(0o775)
    os.chown(folder, 0, UID)
    return _link(folder)


REFUSED: dict[str, Callable[[Path], str]] = {
    "a link": _link,
    "a link to a folder": _link_above,
    "a file": _file,
    "a pipe": _pipe,
    "a link in its folder": _in_theirs,
    "behind an own link": _by_own_link,
    "in a folder of a group": _of_a_group,
}


@pytest.mark.timeout(20)
@pytest.mark.parametrize("name", REFUSED)
def test_another_user_chooses_no_file(open_folder: Path, name: str) -> None:
    """Before a node is asked, and when the report is written; nothing is changed."""
    output = str(open_folder / REFUSED[name](open_folder))
    refused = f"another user, uid {UID}, where .* may write"
    with pytest.raises(click.ClickException, match=refused):
        check_given(output, ())
    with pytest.raises(click.ClickException, match=refused):
        save(["text"], output)
    assert (open_folder / "../own/file").read_text() == "root's"
    assert not (open_folder / "../own/new").exists()


def _own_file(folder: Path) -> str:
    (folder / "x").touch()
    return "x"


def _own_link(folder: Path) -> str:
    (folder / "x").symlink_to("../own/../own/file")
    return "x"


def _of_sudo(folder: Path) -> str:
    (folder / "theirs").mkdir()
    _theirs(folder / "theirs")
    (folder / "theirs/x").touch()
    _theirs(folder / "theirs/x")
    os.environ["SUDO_UID"] = str(UID)
    return "theirs/x"


def _closed_to_them(folder: Path) -> str:
    folder.chmod(0o755)
    return _file(folder)


ALLOWED: dict[str, Callable[[Path], str]] = {
    "new": lambda _: "x",
    "a file": _own_file,
    "a link": _own_link,
    "of the user of sudo": _of_sudo,
    "a folder of root's": _closed_to_them,
}


@pytest.mark.parametrize("name", ALLOWED)
def test_what_is_written(open_folder: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """A file that no other user has put there, also behind a link."""
    monkeypatch.setenv("SUDO_UID", "none")
    output = open_folder / ALLOWED[name](open_folder)
    check_given(str(output), ())
    save(["text"], str(output))
    assert output.read_text() == "text"


def test_it_is_another_users_meanwhile(open_folder: Path) -> None:
    """A report is not given to who puts a file there between the check and the rename."""
    (open_folder / "x").touch()
    _theirs(open_folder / "x").chmod(0o666)
    atomic_write.replace(open_folder / "x", b"text")
    found = (open_folder / "x").stat()
    assert (found.st_uid, found.st_mode & 0o777) == (0, 0o600)


def test_a_stream_of_this_process() -> None:
    """It is behind links in /dev and /proc."""
    for each in ("/dev/stdout", "/dev/fd/1", "/dev/null"):
        writers.check_way(Path(each))

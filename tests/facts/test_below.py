"""What is below a directory, really walked: missing bits, links, mounts and the limits."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from gpu_node.facts.probe.protocol import Unreadable
from gpu_node.facts.probe.shell import shell as script_of
from gpu_node.facts.workspace import below
from gpu_node.facts.workspace.below import Below, parse, section
from tests.shells import ask


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The models after `chmod -R 766`, with odd names, a link and a file of two names."""
    top = tmp_path / "models"
    for name in ("a/b c/data.bin", "a/config.json", "ü\nx/y", ".ssh/id"):
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text("x")
    (top / "link").symlink_to("/etc")
    os.link(top / "a/config.json", top / "second-name")
    for path in [top, *top.rglob("*")]:
        if not path.is_symlink():
            path.chmod(0o766)
    (top / "a/b c/data.bin").chmod(0o600)
    top.chmod(0o766)
    return top


def found(folder: Path, mode: str, shell: str) -> Below:
    """The folder as a node with this shell reports it."""
    readings = ask(shell, [section([(str(folder), mode)])])
    read = readings.take(below.SECTION, parse)
    assert read is not None, readings.unread
    return read[str(folder)]


def test_missing_bits_are_counted(folder: Path, shell: str) -> None:
    """Folders without x, and a file that others cannot read; no link and no file of two names."""
    state = found(folder, "775", shell)
    assert (state.folders, state.files, state.partial) == (2, 1, "")
    assert state.example in ("a", "a/b c")


def test_a_tree_that_has_more_is_right(folder: Path, shell: str) -> None:
    """Nothing has too many bits: a wanted mode is the least, and files never need x."""
    for path in [folder, *folder.rglob("*")]:
        if not path.is_symlink():
            path.chmod(0o777 if path.is_dir() else 0o666)
    state = found(folder, "755", shell)
    assert (state.folders, state.files, state.partial) == (0, 0, "")


def test_a_folder_that_is_not_there(tmp_path: Path, shell: str) -> None:
    assert found(tmp_path / "none", "775", shell) == Below(entries=0)


def test_a_very_large_tree_is_not_complete(
    folder: Path, shell: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The walk ends at its limit, and the state reports that."""
    monkeypatch.setattr(below, "_LOOK", script_of("workspace/below", seconds=20, most=2))
    state = found(folder, "775", shell)
    assert state.partial == "the walk ended after 200000 entries" and state.entries <= 3


def test_names_of_any_bytes(folder: Path, shell: str) -> None:
    """No part of a name is another entry or the end of the walk, and each name is plain text."""
    plain = found(folder, "775", shell)
    for name in ("x\n./second", "x\nend 137\n/c"):
        (folder / name).mkdir(parents=True)
        (folder / name).chmod(0o700)
    assert found(folder, "775", shell) == plain
    odd = os.fsencode(folder / "a") + b"/\xff\xe2\x80\xa8x"
    shutil.rmtree(folder / "a/b c")
    shutil.rmtree(folder / "ü\nx")
    os.mkdir(odd)
    for path in (folder / "a", folder):
        path.chmod(0o777)
    state = found(folder, "777", shell)
    assert (state.folders, state.files, state.example) == (1, 0, "a/????x")


def test_a_broken_answer_is_no_state() -> None:
    for text in ("/data\t1\t0", "/data\tx\t0\t0\t0\t"):
        with pytest.raises((Unreadable, ValueError)):
            parse(text)
    assert parse("/d\t1\t0\t7\t137\t./a b")["/d"].partial == "the walk took more than 20 s"
    assert parse("/d\t1\t0\t7\t2\t./a b")["/d"] == Below(
        entries=7, folders=1, example="a b", partial="find ended with 2"
    )

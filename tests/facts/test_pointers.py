"""Pointers of git-lfs, found in real folders by each shell that nodes have."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from gpu_node.facts.probe.protocol import Unreadable
from gpu_node.facts.workspace.pointers import SECTION, Pointers, parse, section
from tests.shells import ask

POINTER = """\
version https://git-lfs.github.com/spec/v1
oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393
size 12345
"""


def found(path: Path, shell: str) -> Pointers | None:
    readings = ask(shell, [section([str(path)], "root")])
    read = readings.take(SECTION, parse)
    assert read is not None, readings.unread
    return read.get(str(path))


def test_a_clone_without_git_lfs(tmp_path: Path, shell: str) -> None:
    """Pointers are listed by their clone; small files of another kind are none."""
    for name, text in {
        "hub/chatlm/.git/HEAD": "ref: x",
        "hub/chatlm/model.safetensors": POINTER,
        "hub/chatlm/data/two words.parquet": POINTER,
        "hub/chatlm/README.md": POINTER,
        "hub/chatlm/config.bin": "{}",
        "hub/chatlm/real.bin": POINTER + "x" * 5000,
        "alone/m.pt": POINTER,
        "empty.bin": "",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "link.bin").symlink_to("alone/m.pt")
    os.mkfifo(tmp_path / "pipe.bin")
    state = found(tmp_path, shell)
    assert state is not None
    assert {clone: sorted(names) for clone, names in state.clones.items()} == {
        "hub/chatlm": ["hub/chatlm/data/two words.parquet", "hub/chatlm/model.safetensors"],
        "alone": ["alone/m.pt"],
    }
    assert state.partial == ""


def test_names_with_newlines(tmp_path: Path, shell: str) -> None:
    """No part of a name is another file or the end of the walk."""
    (tmp_path / "b").write_text(POINTER)
    for name in ("a\n./b", "a\n./b\nend 137\n"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "x.bin").write_text("none")
    (tmp_path / "a\n." / "b.bin").write_text("none")
    (tmp_path / "b.bin").write_text(POINTER)
    state = found(tmp_path, shell)
    assert state is not None and state.clones == {".": ("b.bin",)} and state.partial == ""


def test_no_pointer_and_no_folder(tmp_path: Path, shell: str) -> None:
    assert found(tmp_path, shell) == Pointers()
    assert found(tmp_path / "none", shell) is None


def test_very_many(tmp_path: Path) -> None:
    """A list is bounded, and says so."""
    for number in range(250):
        (tmp_path / f"{number}.bin").write_text(POINTER)
    state = found(tmp_path, "dash")
    assert state is not None and "more than 5000 small files, or 200 pointers" in state.partial
    assert sum(map(len, state.clones.values())) == 201


def test_a_name_in_another_encoding(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"\xce\xc4.bin")).write_text(POINTER)
    state = found(tmp_path, "dash")
    assert state is not None and state.clones == {".": ("??.bin",)}


def test_an_answer_of_another_form() -> None:
    for text in ("x\ty", "tree\t/a\nno tab"):
        with pytest.raises(Unreadable):
            parse(text)
    assert parse("tree\t/a")["/a"].partial == "it could not be entered"


def test_many_lines_are_read_in_linear_time() -> None:
    """A tuple that grows by each line would take minutes for what a node may send."""
    count = 60_000
    lines = [f".\t{number}.bin" for number in range(count)]
    text = "\n".join(["tree\t/a", *lines, *["end\t0"] * count])
    began = time.process_time()
    found = parse(text)["/a"]
    assert len(found.clones["."]) == count
    assert time.process_time() - began < 2

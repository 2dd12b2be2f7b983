"""FileBytes in real shells: every byte of a file comes back, or there is no answer at all."""

from __future__ import annotations

import os
import re
import shlex
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_node.facts.probe.file_bytes import FileBytes
from tests.shells import as_lines, busybox_machine, run

CONTENTS = {
    "empty": b"",
    "text": b"tmpfs /dev/shm tmpfs size=8G 0 0\n",
    "no-newline-at-the-end": b"a\nb",
    "newlines-only": b"\n\n\n",
    "carriage-returns": b"a\r\nb\r",
    "gbk": b"# \xb9\xd2\xd4\xd8",
    "nul-and-all-others": bytes(range(256)),
    "imitates-the-end": b"whole\nabsent\n",
    "lines-that-repeat": b"0123456789abcdef" * 40,
}
NAMES = ["plain", "two words", "it's", "$HOME", "`id`", "-n", "größe", "a;b", '"', "a\\b", "*"]


def asked(path: str, shell: str = "dash", env: dict[str, str] | None = None) -> list[str]:
    """Return the lines of a node's answer about a file."""
    done = run(shell, str(FileBytes().command(path)), env=env)
    assert (done.returncode, done.stderr) == (0, b"")
    return as_lines(done.stdout)


def content(lines: list[str]) -> bytes:
    """Return the bytes that an answer says; the file exists."""
    found = FileBytes().process(lines)
    assert (found["exists"], found["problem"]) == (True, "")
    return found["text"].encode("latin-1")


@pytest.mark.parametrize("name", CONTENTS)
def test_every_byte_comes_back(name: str, shell: str, tmp_path: Path) -> None:
    """Whatever is in a file, and whatever shell reads it."""
    file = tmp_path / "file"
    file.write_bytes(CONTENTS[name])
    assert content(asked(str(file), shell)) == CONTENTS[name]


@pytest.mark.parametrize("name", CONTENTS)
def test_every_byte_comes_back_from_a_machine_of_busybox_alone(name: str, tmp_path: Path) -> None:
    """Its od writes other columns."""
    file = tmp_path / "file"
    file.write_bytes(CONTENTS[name])
    env = busybox_machine(tmp_path / "bin")
    assert content(asked(str(file), "busybox", env)) == CONTENTS[name]


@settings(max_examples=50, deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_come_back(data: bytes) -> None:
    """The round trip of arbitrary bytes."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        assert content(asked(file.name)) == data


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_never_run(name: str, tmp_path: Path) -> None:
    """The shell takes any name for the name of a file."""
    (tmp_path / name).write_bytes(b"here")
    assert content(asked(str(tmp_path / name))) == b"here"


def test_a_file_that_is_not_there(shell: str, tmp_path: Path) -> None:
    """An absent file differs from an empty one."""
    assert FileBytes().process(asked(str(tmp_path / "none"), shell)) == {
        "exists": False,
        "text": "",
        "problem": "",
    }


def test_a_folder_is_no_file(shell: str, tmp_path: Path) -> None:
    """The answer reports a file that cannot be read; it never counts as absent."""
    found = FileBytes().process(asked(str(tmp_path), shell))
    assert "regular file" in found["problem"]
    assert not found["exists"]


@pytest.mark.parametrize("target", [".bashrc", "other", "no/where"])
def test_a_link_that_leads_to_no_file(shell: str, target: str, tmp_path: Path) -> None:
    """It is no absent file: none can be made in its place."""
    (tmp_path / ".bashrc").symlink_to(target)
    (tmp_path / "other").symlink_to(".bashrc")
    found = FileBytes().process(asked(str(tmp_path / ".bashrc"), shell))
    why = f"it is a link to {target}, which leads to no file; next: remove the link, or correct it"
    assert (found["exists"], found["problem"]) == (False, why)


@pytest.mark.parametrize("name", sorted(set(CONTENTS) - {"empty"}))
def test_a_cut_answer_is_no_content(name: str, tmp_path: Path) -> None:
    """Wherever the answer ends, there is a problem and no half a file."""
    (tmp_path / "file").write_bytes(CONTENTS[name])
    whole = "\n".join(asked(str(tmp_path / "file")))
    for end in range(len(whole)):
        found = FileBytes().process(whole[:end].split("\n"))
        assert found == {"exists": False, "text": "", "problem": found["problem"]}
        assert re.search("ended before|cut short|not understood", found["problem"])


def test_no_answer_at_all_is_a_problem() -> None:
    """What pyinfra puts in its place says so, and does not look like a file that is not there."""
    assert FileBytes.default()["problem"]


@pytest.mark.parametrize("noise", ["Welcome!\n", "61 62\nwhole\n", "absent\n", "größe\n\n"])
def test_a_greeting_in_front_does_no_harm(noise: str, tmp_path: Path) -> None:
    """What ~/.bashrc prints is not read as bytes, even where it looks like an answer."""
    (tmp_path / "file").write_bytes(b"here")
    for path, exists in ((tmp_path / "file", True), (tmp_path / "none", False)):
        script = f"printf %s {shlex.quote(noise)}\n{FileBytes().command(str(path))}"
        found = FileBytes().process(as_lines(run("dash", script).stdout))
        assert found == {"exists": exists, "text": "here" if exists else "", "problem": ""}


@pytest.mark.parametrize("noise", ["Welcome!", "61 62", "absent"])
def test_a_greeting_without_a_newline_does_no_harm(noise: str, tmp_path: Path) -> None:
    """The answer begins on a line of its own."""
    (tmp_path / "file").write_bytes(b"here")
    script = f"printf %s {shlex.quote(noise)}\n{FileBytes().command(str(tmp_path / 'file'))}"
    assert content(as_lines(run("dash", script).stdout)) == b"here"


def test_a_pipe_and_a_huge_file(shell: str, tmp_path: Path) -> None:
    """Neither is read: one would wait, and the other never end."""
    os.mkfifo(tmp_path / "pipe")
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(1 << 34)
    for name, why in (("pipe", "regular file"), ("huge", "larger than 16 MiB")):
        found = FileBytes().process(asked(str(tmp_path / name), shell))
        assert not found["exists"] and why in found["problem"]


@pytest.mark.skipif(os.geteuid() != 0, reason="another account is needed")
def test_of_a_users_file_no_more_is_read_than_by_the_probe() -> None:
    """The user decides how much is in it, and the controller edits what it has read."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)  # pytest's own folders are closed to others
        file = Path(folder) / ".bashrc"
        file.write_bytes(b"x" * ((1 << 20) + 1))
        file.chmod(0o644)
        for user, problem in (("daemon", "it is larger than 1 MiB"), ("root", "")):
            done = run("dash", str(FileBytes().command(str(file), user)))
            assert FileBytes().process(as_lines(done.stdout))["problem"] == problem

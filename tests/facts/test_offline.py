"""Answers that a site brings back: only those of the node, to today's questions, are read."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpu_node.facts.ask.gather import Answer
from gpu_node.facts.ask.offline import Script, answers, scripts
from gpu_node.inventories.regular_file import why_none
from tests.shells import SHELLS, at_an_empty_home

VERSION = "1.2.3"
PEERS = [
    {"name": "a100-01", "address": "192.0.2.1"},
    {"name": "v100-01", "address": "192.0.2.2"},
]
HOSTS: dict[str, dict[str, Any]] = {
    each["name"]: {
        "ssh_hostname": each["address"],
        "ssh_user": "root",
        "cluster_nodes": PEERS,
        "ssh_mesh": True,
    }
    for each in PEERS
}


def printed(script: Script, *words: str, shell: str = "dash") -> subprocess.CompletedProcess[str]:
    """What a node prints: this machine, with an empty home."""
    program, *options = SHELLS[shell]
    return subprocess.run(
        [program, *options, "-s", *words],
        input=script.text,
        capture_output=True,
        text=True,
        env={**os.environ, **at_an_empty_home()},
        timeout=120,
        check=False,
    )


@pytest.fixture(scope="module")
def answer() -> str:
    """The answer of a100-01."""
    (script,) = scripts(HOSTS, VERSION)
    return printed(script, "a100-01").stdout


def read(folder: Path, **texts: str) -> dict[str, Answer]:
    """Read the answers with these texts; _ in a name stands for -."""
    for name, text in texts.items():
        (folder / f"{name.replace('_', '-')}.txt").write_text(text)
    return answers(folder, HOSTS, VERSION, why_none)


def test_nodes_that_are_asked_the_same_share_a_script() -> None:
    """1,000 nodes are not 1,000 files; one that is asked more has its own."""
    (script,) = scripts(HOSTS, VERSION)
    assert (script.name, script.nodes) == ("a100-01", ("a100-01", "v100-01"))
    apart = {**HOSTS, "v100-01": {**HOSTS["v100-01"], "nccl_environments": ["/opt/env"]}}
    assert [each.nodes for each in scripts(apart, VERSION)] == [("a100-01",), ("v100-01",)]


def test_a_port_of_its_own_is_asked_about() -> None:
    """What sshd does depends on the port."""
    peers = [PEERS[0], {**PEERS[1], "port": 2222}]
    apart = {name: {**data, "cluster_nodes": peers} for name, data in HOSTS.items()}
    assert len(scripts(apart, VERSION)) == 2


def test_no_login_is_tried() -> None:
    """The nodes run their scripts at different times."""
    (script,) = scripts(HOSTS, VERSION)
    assert "StrictHostKeyChecking=yes" not in script.text
    assert "ssh.known" in script.text


def test_a_script_needs_a_name_that_a_file_can_have(shell: str) -> None:
    """Nothing is asked without one."""
    (script,) = scripts(HOSTS, VERSION)
    for words in ((), ("../x",), ("a b",)):
        ended = printed(script, *words, shell=shell)
        assert (ended.returncode, ended.stdout) == (1, "")
        assert "NODE is the name of this node in the inventory" in ended.stderr


def test_no_other_user_reads_an_answer(shell: str, tmp_path: Path) -> None:
    """What root reads is for its reader alone; what is no file keeps its mode."""
    script = Script(("a",), "stat -L -c %a /dev/stdout", VERSION)
    program, *options = SHELLS[shell]
    with (tmp_path / "a.txt").open("w") as file:
        os.fchmod(file.fileno(), 0o644)
        words = [program, *options, "-s"]
        subprocess.run(words, input=script.text, stdout=file, text=True, check=True)
    assert (tmp_path / "a.txt").read_text().endswith("\n600\n")
    assert "Permission" not in printed(script, shell=shell).stderr
    mode = os.stat(os.devnull).st_mode
    subprocess.run(words, input=script.text, stdout=subprocess.DEVNULL, text=True, check=True)
    assert os.stat(os.devnull).st_mode == mode


def test_answers_are_read(answer: str, tmp_path: Path) -> None:
    """Lines around it, a BOM, and ends of lines as of another system, change nothing."""
    noise = f"\ufeffWelcome\r\n{answer}logout".replace("\n", "\r\n")
    found = read(tmp_path, a100_01=noise, v100_01=answer.replace(" a100-01 ", " v100-01 "))
    assert list(found) == ["a100-01", "v100-01"]
    for each in found.values():
        assert each.error is None and each.reached
        assert each.state is not None and each.state.toolchain.kernel
        assert each.state.ssh.logins == ()


def test_a_node_without_an_answer(answer: str, tmp_path: Path) -> None:
    """Is unreachable; the other is read."""
    found = read(tmp_path, a100_01=answer)
    assert found["a100-01"].state is not None
    assert not found["v100-01"].reached
    assert found["v100-01"].error == (
        f"found no file {tmp_path}/v100-01.txt; next: on the node, "
        "sh a100-01.sh v100-01 >v100-01.txt"  # both are asked the same: one script
    )


@pytest.mark.parametrize(
    ("make", "found"),
    [
        (os.mkfifo, "a named pipe, not a file"),
        (Path.mkdir, "a folder, not a file"),
        (lambda file: file.symlink_to(file), "too many levels of symbolic links"),
        (lambda file: file.symlink_to("/dev/zero"), "a device, not a file"),
    ],
)
def test_what_is_no_file(make: Callable[[Path], object], found: str, tmp_path: Path) -> None:
    """It would never end, or has no text: the node is unreachable, for that reason."""
    file = tmp_path / "a100-01.txt"
    make(file)
    answer = read(tmp_path)["a100-01"]
    assert not answer.reached
    assert answer.error == (
        f"found {found} (cannot read {file}); allowed: a file; next: on the node, "
        "sh a100-01.sh a100-01 >a100-01.txt"
    )


def test_a_file_of_another_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reason is the system's."""

    def denied(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    (tmp_path / "a100-01.txt").touch()
    monkeypatch.setattr(Path, "open", denied)
    error = answers(tmp_path, HOSTS, VERSION, why_none)["a100-01"].error
    assert (error or "").startswith("found permission denied (cannot read ")

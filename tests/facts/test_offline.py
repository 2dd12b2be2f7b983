"""Answers that a site brings back: only those of the node, to today's questions, are read."""

from __future__ import annotations

import os
import re
import subprocess
import time
import tracemalloc
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


def of_another(answer: str) -> str:
    """The same answer, of v100-01 on another machine."""
    return re.sub(
        r"^(@@gpu-node script \w+) \S+ (\d+) \S+", r"\1 v100-01 \2 other", answer, flags=re.M
    )


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
    found = read(tmp_path, a100_01=noise, v100_01=of_another(answer))
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


def _older(answer: str, hours: float) -> str:
    stamp = str(int(time.time() - hours * 3600))
    return re.sub(r"^(@@gpu-node script \S+ \S+) \d+", rf"\1 {stamp}", answer, flags=re.M)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda text: "", "found no answer to a script of gpu-node probe"),
        (lambda text: "x" * 70_000, "found no answer to a script of gpu-node probe"),
        (of_another, "it is the answer of v100-01"),
        (lambda text: _older(text, 25), "it is 25 hours old by the clock of the node"),
        (lambda text: _older(text, -30), "it is 30 hours ahead by the clock of the node"),
        (
            lambda text: re.sub("script [0-9a-f]+", f"script {'0' * 16}", text),
            "it answers another inventory or version of gpu-node",
        ),
        (lambda text: text[: len(text) // 2], "it was cut off before its end"),
        (lambda text: text + "x" * 17_000_000, "its answer has more than 16 MiB"),
        (lambda text: text.replace("@@gpu-node done", "@@gpu-node doneish"), "it was cut off"),
        (lambda text: text * 2, "it holds more than one answer"),
        (lambda text: text + of_another(text), "it holds more than one answer"),
        (lambda text: of_another(text) + text, "it holds more than one answer"),
    ],
)
def test_what_is_no_answer_of_the_node(
    answer: str, change: Callable[[str], str], reason: str, tmp_path: Path
) -> None:
    """It is unreadable, with the reason and the next step; it never counts as the node's."""
    found = read(tmp_path, a100_01=change(answer))["a100-01"]
    assert (found.state, found.reached) == (None, True)
    assert reason in (found.error or "")


def test_one_machine_for_two_nodes(answer: str, tmp_path: Path) -> None:
    """A script run twice on one node is no report about two; what either sent is judged."""
    alone = read(tmp_path, a100_01=answer)["a100-01"].state
    twice = answer.replace(" a100-01 ", " v100-01 ", 1)
    found = read(tmp_path, a100_01=answer, v100_01=twice)
    for name, other in (("a100-01", "v100-01"), ("v100-01", "a100-01")):
        state = found[name].state
        assert alone is not None and state is not None
        *rest, clash = state.unreadable
        assert tuple(rest) == alone.unreadable
        assert state.model_copy(update={"unreadable": tuple(rest)}) == alone
        assert (clash.area, clash.section) == ("host", "host.machine")
        assert f"the answer of {other} names the same machine" in clash.reason


@pytest.mark.parametrize(
    "change",
    [
        lambda text: _older(text, 25),
        lambda text: re.sub("script [0-9a-f]+", f"script {'0' * 16}", text),
        lambda text: text[: len(text) // 2],
        lambda text: text[: text.index("@@gpu-node begin")],
    ],
)
def test_an_answer_that_is_refused_says_nothing_of_another(
    answer: str, change: Callable[[str], str], tmp_path: Path
) -> None:
    """A node may send the boot id of any other; the user of one who has no script reads it, too."""
    alone = read(tmp_path, a100_01=answer)["a100-01"]
    stolen = change(answer.replace(" a100-01 ", " v100-01 ", 1))
    found = read(tmp_path, a100_01=answer, v100_01=stolen)
    assert found["v100-01"].error and found["a100-01"] == alone


def _planted(answer: str, text: str) -> str:
    """Return an answer with a text of a user in the output of a section, as the probe sends it."""
    begin = re.search(r"^(@@gpu-node begin \S+ 0 raw )(\d+)$", answer, re.M)
    assert begin is not None
    whole = f"{begin[1]}{int(begin[2]) + len(text)}\n{text}"
    return answer[: begin.start()] + whole + answer[begin.end() + 1 :]


STAMPED = f"\n@@gpu-node script {'0' * 16} a100-01 1 x y\n"


def test_marks_within_a_section_are_text(answer: str, tmp_path: Path) -> None:
    """A user can write a stamp into a file that is read, and an end."""
    found = read(tmp_path, a100_01=_planted(answer, f"{STAMPED}@@gpu-node done\n"))["a100-01"]
    assert found.error is None and found.state is not None
    cut = _planted(answer, "\n@@gpu-node done\n")
    cut = cut[: cut.index("@@gpu-node done") + 20]
    found = read(tmp_path, a100_01=cut)["a100-01"]
    assert "it was cut off before its end" in (found.error or "")
    only = _planted(answer, STAMPED)
    headless = only[only.index("@@gpu-node begin") :]
    found = read(tmp_path, a100_01=headless)["a100-01"]
    assert "found no answer to a script of gpu-node probe" in (found.error or "")


@pytest.mark.parametrize("lines", ["\n", "@@gpu-node begin x 0 raw 9\n"])
def test_as_many_lines_as_a_file_can_have(answer: str, lines: str, tmp_path: Path) -> None:
    """Each line would be an object: 16 MiB of them took 476 MiB."""
    end = "\n@@gpu-node done"
    text = answer.replace(end, lines * (15_000_000 // len(lines)) + end)
    read(tmp_path, a100_01=answer)  # what is imported once counts for none
    (tmp_path / "a100-01.txt").write_text(text)
    tracemalloc.start()
    found = read(tmp_path)["a100-01"]
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert "its answer has more than 500000 lines" in (found.error or "")
    assert most < 100 << 20


def test_an_answer_that_was_copied_for_another_node(answer: str, tmp_path: Path) -> None:
    """Its own node keeps it; the other one has none."""
    found = read(tmp_path, a100_01=answer, v100_01=answer)
    assert found["a100-01"].state is not None
    assert "it is the answer of a100-01" in (found["v100-01"].error or "")


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

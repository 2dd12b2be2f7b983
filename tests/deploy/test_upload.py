"""What the controller sends to a node: no other user gets at it on the way to root."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path
from typing import Any, cast

import pytest
from pyinfra.api import Host, State, StringCommand
from pyinfra.connectors.util import CommandOutput, OutputLine

from gpu_node.deploy.engine.scripts import Script, text
from gpu_node.deploy.files.downloads import Upload, sum_of_file
from tests.shells import SHELLS


class Node:
    """This machine, as a host whose SSH user is not root: `sudo` notes what ran as root."""

    print_prefix = "[node] "
    print_input = False

    def __init__(self, shell: str) -> None:
        self.shell, self.sudo = shell, list[bool]()
        self.folder = Path()
        self.mode = 0
        self.sends = True
        self.damages = False

    @property
    def connector(self) -> Any:
        """The connection to it."""
        return self

    def run_shell_command(self, command: StringCommand, *_: Any, **given: Any) -> Any:
        """Run a command, and note how."""
        self.sudo.append(bool(given.get("_sudo")))
        argv = [*SHELLS[self.shell], "-c", command.get_raw_value()]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        lines = [OutputLine("stdout", line) for line in done.stdout.splitlines()]
        lines += [OutputLine("stderr", line) for line in done.stderr.splitlines()]
        return done.returncode == 0, CommandOutput(lines)

    def put_file(self, source: str, target: str, **given: Any) -> bool:
        """Write a file as the SSH user does by sftp, which has no sudo."""
        assert not given
        self.folder = Path(target).parent
        self.mode = self.folder.stat().st_mode & 0o7777
        data = Path(source).read_bytes()
        Path(target).write_bytes(data[:-1] if self.damages else data)
        return self.sends


def make(body: str, **given: str) -> Script:
    """A script that gets a file, with what stands before one."""
    words = {"sent": "", "sent_sum": "", "pushed": "", **given}
    head = "".join(f"{key}={shlex.quote(value)}\n" for key, value in words.items())
    return Script(f"{head}{text('sent')}{body}")


def send(node: Node, file: Path, body: str) -> tuple[bool, list[str]]:
    """Run a script with a file as an operation of a host with sudo does."""
    upload = Upload(file, lambda **given: make(body, **given))
    done, output = upload.run(cast(State, node), cast(Host, node), {"_sudo": True})
    return done, [line.line for line in output]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """What is sent."""
    path = tmp_path / "it's a wheel.whl"
    path.write_bytes(os.urandom(100))
    return path


LOOK = 'stat -c "%a %u" "${pushed%/*}"; sha256sum <"$pushed"; echo "$sent $pushed"'


def test_it_arrives(file: Path, shell: str) -> None:
    """Into a new folder that no other user can enter, and from there into one of root's."""
    node = Node(shell)
    done, lines = send(node, file, LOOK)
    folder, found, paths = lines
    assert (done, node.mode, node.sudo) == (True, 0o700, [False, True])
    assert folder == f"700 {os.getuid()}" and found.split()[0] == sum_of_file(file)
    sent, pushed = paths.split(" /", 1)
    assert sent.startswith("/var/tmp/gpu-node-sent.") and pushed.startswith("var/tmp/gpu-node-box.")
    assert not node.folder.exists() and not Path(f"/{pushed}").parent.exists()


def test_it_has_a_name_of_its_own_each_time(file: Path) -> None:
    """No other user can be there before."""
    nodes = [Node("dash"), Node("dash")]
    assert all(send(node, file, LOOK)[0] for node in nodes)
    assert nodes[0].folder != nodes[1].folder


def test_another_file_than_was_sent(file: Path, shell: str) -> None:
    """As of a disk that is full, or of a process that writes into it: root uses none of it."""
    node = Node(shell)
    node.damages = True
    done, lines = send(node, file, "echo begun")
    assert not done and "begun" not in lines
    assert "was damaged on its way from the controller: its sha256 is another" in lines[0]
    assert not node.folder.exists()


def test_what_cannot_be_sent(file: Path) -> None:
    """No script runs, and no folder is left."""
    node = Node("dash")
    node.sends = False
    assert send(node, file, "echo begun") == (False, [])
    assert node.sudo == [False, False] and not node.folder.exists()


@pytest.mark.parametrize("says", ["", "/etc", "/var/tmp/gpu-node-sent.x/../../etc", "$(id)"])
def test_a_node_that_names_another_folder(
    file: Path, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is written there, and nothing is removed."""
    node = Node("dash")
    answer = CommandOutput([OutputLine("stdout", says)])
    monkeypatch.setattr(node, "run_shell_command", lambda *_, **__: (True, answer))
    monkeypatch.setattr(node, "put_file", lambda *_, **__: pytest.fail("sent"))
    assert send(node, file, "echo begun") == (False, [])

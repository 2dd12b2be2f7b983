"""Completion as docs/how-to/shell-and-editor.md sets it up, by the Tab key of a real bash."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import click
import pytest

from gpu_node.cli.commands import NAMES, commands
from tests.commands import BIN, environment

SECONDS = 30
CLUSTER = (
    "cluster: c\ngroups: {v100: {}}\n"
    "hosts:\n  a100-01: {address: 10.0.0.4}\n  v100-01: {address: 10.0.0.5, group: v100}\n"
)


class Bash:
    """A bash at a terminal, in a folder with a cluster file, with the line of that page."""

    def __init__(self, folder: Path) -> None:
        (folder / "cluster").mkdir()
        (folder / "cluster/site.yml").write_text(CLUSTER)
        (folder / "report.html").touch()
        self._terminal, theirs = pty.openpty()
        path = f"{BIN}:{os.environ['PATH']}"
        more = {"PATH": path, "PS1": "", "TERM": "dumb", "INPUTRC": "/dev/null"}
        self._process = subprocess.Popen(
            ["bash", "--norc", "--noprofile", "-i"],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            cwd=folder,
            env={**environment(), **more},
            start_new_session=True,
        )
        os.close(theirs)
        self._line('bind "set bell-style none"; eval "$(_GPU_NODE_COMPLETE=bash_source gpu-node)"')

    def completed(self, words: str) -> str:
        """Return a line as it is after Tab; Ctrl-A puts the command before it that prints it."""
        shown = self._line(f"{words}\t\x01echo LINE ")
        return next(line for line in shown.splitlines() if line.startswith("LINE "))[5:].strip()

    def end(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()
        os.close(self._terminal)

    def _line(self, text: str) -> str:
        """Type a line; return all that is shown until the one after it has run."""
        os.write(self._terminal, f"{text}\necho en''d\n".encode())
        shown, end = b"", time.monotonic() + SECONDS
        while b"\nend" not in shown:
            left = end - time.monotonic()
            assert left > 0 and select.select([self._terminal], [], [], left)[0], shown
            with suppress(OSError):
                shown += os.read(self._terminal, 65536)
        return shown.decode()


@pytest.fixture
def bash(tmp_path: Path) -> Iterator[Bash]:
    """It runs until the test is over."""
    shell = Bash(tmp_path)
    yield shell
    shell.end()


def test_the_tab_key(bash: Bash) -> None:
    """File names as without our completion; rules, and the nodes of the inventory."""
    for words, wanted in [
        ("gpu-node check clu", "gpu-node check cluster/"),
        (
            "gpu-node drift cluster/site.yml -o rep",
            "gpu-node drift cluster/site.yml -o report.html",
        ),
        ("gpu-node explain shm.too", "gpu-node explain shm.too-small"),
        ("gpu-node host-key cluster/site.yml v1", "gpu-node host-key cluster/site.yml v100-01"),
        (
            "gpu-node drift cluster/site.yml --limit a1",
            "gpu-node drift cluster/site.yml --limit a100-01",
        ),
        (
            "gpu-node drift cluster/site.yml --only shm.too",
            "gpu-node drift cluster/site.yml --only shm.too-small",
        ),
        (
            "gpu-node deploy cluster/site.yml --areas shm,lim",
            "gpu-node deploy cluster/site.yml --areas shm,limits",
        ),
    ]:
        assert bash.completed(words) == wanted


def _command(name: str) -> click.Command:
    command = commands.get_command(click.Context(commands), name)
    assert command is not None
    return command


def test_each_file_and_name_is_completed(tmp_path: Path) -> None:
    """No parameter that takes a file, a folder, a rule or a node is without candidates."""
    (tmp_path / "site.yml").write_text(CLUSTER)
    named = re.compile(r"INVENTORY|DIR|FILE(\.\w+)?|RULE|NODE|AREA|X|A,B")
    for name in NAMES:
        command = _command(name)
        context = click.Context(command, resilient_parsing=True)
        context.params["inventory"] = str(tmp_path / "site.yml")
        for param in command.params:
            if named.fullmatch(param.metavar or param.human_readable_name.upper()):
                assert param.shell_complete(context, ""), (command.name, param.name)


def test_what_a_part_of_the_cluster_is_named_by(tmp_path: Path) -> None:
    """--limit has groups, too, --only what a report can be about; each area is offered once."""
    (tmp_path / "site.yml").write_text(CLUSTER)
    drift, deploy = (_command(name) for name in ("drift", "deploy"))
    for command, option, begun, wanted in [
        (drift, "limit", "v100", ["v100-01", "v100"]),
        (drift, "only", "v100", ["v100-01"]),
        (drift, "only", "shm.p", ["shm.permissions"]),
        (deploy, "areas", "shm,s", ["shm,ssh"]),
        (deploy, "areas", "s", ["shm", "ssh"]),
    ]:
        context = click.Context(command, resilient_parsing=True)
        context.params["inventory"] = str(tmp_path / "site.yml")
        param = next(each for each in command.params if each.name == option)
        assert [each.value for each in param.shell_complete(context, begun)] == wanted

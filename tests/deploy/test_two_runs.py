"""Two runs on one node: the second waits, reports for which run, and reads files after that."""

from __future__ import annotations

import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from pyinfra.api import Host, State
from pyinfra.connectors.util import CommandOutput, OutputLine

from gpu_node.deploy.engine import scripts
from gpu_node.deploy.engine.run import node_of
from gpu_node.deploy.engine.scripts import Script, origin, script
from gpu_node.deploy.files.replace import replace
from gpu_node.facts.probe.file_bytes import FileContent
from tests.node_scripts import WAIT_FOR_FILE, run

ABSENT = FileContent(exists=False, text="", problem="")


class Node:
    """A host whose commands run on this machine; `prints` is what was shown at once."""

    name, print_prefix = "node", "[node] "
    print_input = False

    def __init__(self, shell: str) -> None:
        self.shell, self.state = shell, self
        self.prints: list[str] = []
        self.reads = 0

    def run_shell_command(
        self, command: Script, print_output: bool, print_input: bool, **given: Any
    ) -> tuple[bool, CommandOutput]:
        """Run a command as pyinfra's connector does."""
        done = run(command, self.shell)
        lines = [OutputLine("stdout", line) for line in done.out.splitlines()]
        lines += [OutputLine("stderr", line) for line in done.err.splitlines()]
        self.prints += [line.line for line in lines if print_output]
        return done.code == 0, CommandOutput(lines)

    def get_fact(self, fact: object, path: str, user: str = "") -> FileContent:
        """Read a file."""
        self.reads += 1
        return FileContent(exists=True, text=Path(path).read_text(encoding="latin-1"), problem="")


def execute(node: Node, command: object) -> tuple[bool, CommandOutput]:
    """Run a command as pyinfra's operation does."""
    assert isinstance(command, Script)
    return command.execute(cast(State, node), cast(Host, node), {})


@contextmanager
def held(lock: Path, until: Path | str = "", says: str = "") -> Iterator[int]:
    """Another run that holds the lock until there is a file, with its name in the lock; its pid."""
    code = (
        "import fcntl, os, sys; f = open(sys.argv[1], 'w'); fcntl.flock(f, fcntl.LOCK_EX)\n"
        "f.write(sys.argv[2] or f'pid {os.getpid()}, user zhang, from wang@laptop (pid 7 there)')\n"
        f"f.flush(); print(1, flush=True)\n{WAIT_FOR_FILE}"
    )
    words = [sys.executable, "-c", code, str(lock), says, str(until)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None and other.stdout.readline() == "1\n"
        try:
            yield other.pid
        finally:
            other.kill()


def test_what_waits_reports_for_whom(
    tmp_path: Path, backups: Path, shell: str, lock: Path, slept: Path
) -> None:
    """pid, user and origin of the run that works; at once, and once; then its own are there."""
    node = Node(shell)
    with held(lock, until=slept) as pid:
        done, _ = execute(node, replace(str(tmp_path / "conf"), ABSENT, "new"))
    assert done and (tmp_path / "conf").read_text() == "new"
    assert node.prints == [
        "gpu-node: waits for another run on this node: "
        f"pid {pid}, user zhang, from wang@laptop (pid 7 there)"
    ]
    line = lock.read_text()
    assert line.startswith("pid ") and line.endswith(f", user root, from {origin()}\n")


def test_it_gives_up(
    tmp_path: Path, backups: Path, shell: str, lock: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lock, and who holds it, are named; what fails is shown once."""
    monkeypatch.setattr(scripts, "RUN_SECONDS", 1)
    node = Node(shell)
    with held(lock) as pid:
        done, output = execute(node, replace(str(tmp_path / "conf"), ABSENT, "new"))
    assert not done and not (tmp_path / "conf").exists()
    reported = f"holds {lock} (pid {pid}, user zhang, from wang@laptop (pid 7 there)); nothing was"
    assert [reported in line for line in node.prints] == [False, True]
    assert list(output) == []  # pyinfra would print it again


def test_a_run_that_has_ended(
    tmp_path: Path, backups: Path, shell: str, lock: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it has started holds the lock still; and a lock without a name."""
    monkeypatch.setattr(scripts, "RUN_SECONDS", 0)
    for says, expected in (
        ("pid 4194305, user root, from x@y", "which has ended: a process that it started is still"),
        ("of an older version", f"holds {lock} (unknown); nothing was changed, run again"),
    ):
        with held(lock, says=says):
            done = run(script("replace", "x", file=str(tmp_path / "conf")), shell)
        assert done.code == 1 and expected in done.err, done


@pytest.mark.parametrize("mode", [None, 0o644])
def test_no_other_user_can_lock_it(
    tmp_path: Path, backups: Path, shell: str, lock: Path, mode: int | None
) -> None:
    """Who may read a file may lock it, and would hold up each run: also one of an older version."""
    if mode is not None:
        lock.touch(mode)
        lock.chmod(mode)
    done, _ = execute(Node(shell), replace(str(tmp_path / "conf"), ABSENT, "new"))
    assert done
    assert stat.S_IMODE(lock.stat().st_mode) == 0o600


def test_the_file_is_read_after_the_wait(tmp_path: Path, backups: Path, shell: str) -> None:
    """Another run has written into the file since it was read: both runs' lines are in it."""
    file, node = tmp_path / "conf", Node(shell)
    file.write_text("old\n")
    found = FileContent(exists=True, text="old\n", problem="")
    mine = replace(str(file), found, "old\nmine\n", again=lambda text: f"{text}mine\n")
    file.write_text("old\ntheirs\n")
    done, _ = execute(node, mine)
    assert (done, node.reads) == (True, 1)
    assert file.read_text() == "old\ntheirs\nmine\n"
    assert node.prints == [f"gpu-node: {file}: changed meanwhile; reading it again"]
    assert Path(f"{backups}{file}").read_text() == "old\ntheirs\n"


def test_a_new_file_of_both(tmp_path: Path, backups: Path, shell: str) -> None:
    """It appeared with other lines, or with the same ones, where there is nothing to do."""
    file, node = tmp_path / "conf", Node(shell)
    mine = replace(str(file), ABSENT, "mine\n", again=lambda text: f"{text}mine\n")
    file.write_text("theirs\n")
    assert not node_of(cast(Host, node)).is_recorded
    assert execute(node, mine)[0] and node_of(cast(Host, node)).is_recorded
    assert file.read_text() == "theirs\nmine\n"
    file.write_text("mine\n")
    written = file.stat().st_mtime_ns
    assert execute(node, mine)[0]
    assert (file.stat().st_mtime_ns, node.reads) == (written, 1)
    assert node.prints[-1] == f"gpu-node: {file}: another run has written the same"


def test_a_file_that_changes_for_ever(tmp_path: Path, backups: Path, shell: str) -> None:
    """It ends, and fails, and nothing is lost."""
    file, node = tmp_path / "conf", Node(shell)
    file.write_text("")

    def edit(text: str) -> str:
        file.write_text(f"{text}x")
        return f"{text}mine"

    done, _ = execute(node, replace(str(file), ABSENT, "mine", again=edit))
    assert (done, node.reads) == (False, 5)
    assert file.read_text() == "xxxxx"


def test_a_file_that_became_one_that_cannot_be_edited(
    tmp_path: Path, backups: Path, shell: str
) -> None:
    """It stays as another run has left it."""
    file, node = tmp_path / "conf", Node(shell)
    file.write_text("theirs")

    def edit(text: str) -> str:
        raise ValueError(f"{text} has no end")

    done, _ = execute(node, replace(str(file), ABSENT, "mine", again=edit))
    assert (done, node.reads, file.read_text()) == (False, 1, "theirs")

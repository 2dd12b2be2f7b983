"""Programs that tests start by posix_spawn: as if they were forked."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests import spawn
from tests.shells import SHELLS, run

SHOWS = (
    "read -r line; echo \"$line $WORD\"; echo error >&2; sed -n 's/^SigIgn:.//p' /proc/$$/status"
)


def test_what_a_child_gets() -> None:
    """Its words, stdin and environment, the three outputs, and no ignored SIGPIPE."""
    assert subprocess.Popen is spawn.Popen
    done = subprocess.run(
        ["sh", "-c", SHOWS],
        input="given",
        env={**os.environ, "WORD": "named"},
        capture_output=True,
        text=True,
    )
    first, ignored = done.stdout.splitlines()
    assert (first, done.stderr, done.returncode) == ("given named", "error\n", 0)
    assert not int(ignored, 16) & 1 << (signal.SIGPIPE - 1)
    both = subprocess.run(["sh", "-c", "echo a; echo b >&2"], stdout=-1, stderr=subprocess.STDOUT)
    assert both.stdout == b"a\nb\n"


def test_a_child_has_no_other_file_of_its_parent(tmp_path: Path) -> None:
    """As Python's own close_fds; a session of its own where it is asked for."""
    with (tmp_path / "file").open("w") as file:
        os.set_inheritable(file.fileno(), False)
        listed = subprocess.run(["ls", "-l", "/proc/self/fd"], capture_output=True, text=True)
    assert str(tmp_path) not in listed.stdout
    session = subprocess.run(
        ["sh", "-c", "ps -o sid= -p $$"], start_new_session=True, capture_output=True, text=True
    )
    assert int(session.stdout) != os.getsid(0)


def test_a_program_is_found_by_the_path_of_its_environment(tmp_path: Path) -> None:
    """One that is missing is named, as by a fork; so is one that ends by a signal, or never."""
    (tmp_path / "tool").write_text("#!/bin/sh\necho mine\n")
    (tmp_path / "tool").chmod(0o755)
    path = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    assert subprocess.check_output(["tool"], env=path) == b"mine\n"
    with pytest.raises(FileNotFoundError):
        subprocess.run(["tool"])
    assert subprocess.run(["sh", "-c", "kill -TERM $$"]).returncode == -signal.SIGTERM
    with pytest.raises(subprocess.TimeoutExpired):
        subprocess.run(["sleep", "60"], timeout=0.1)


@pytest.mark.parametrize("shell", SHELLS)
def test_a_pipe_that_closes_ends_the_writer(shell: str) -> None:
    """The writer of a script gets SIGPIPE, as on a node."""
    assert run(shell, "{ yes; echo $? >&2; } | head -n 1").stderr != b"0\n"

"""Runs the installed commands as a user does: from the repository root, with pipes, no terminal."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass, field

from tests import fork_server
from tests.fork_server import BIN, REPOSITORY

__all__ = ["BIN", "REPOSITORY"]
# A machine that runs all lanes at once takes its time.
SECONDS = 120


@dataclass(frozen=True)
class Ended:
    """How a command ended: exit code, stdout and stderr.

    `seconds` of a processor and the most memory in MB are known of the forks that `run` makes.
    """

    code: int
    out: str
    err: str
    seconds: float = field(default=0, compare=False)
    megabytes: float = field(default=0, compare=False)


def environment() -> dict[str, str]:
    """The caller's, without what would colour or widen the output of any program."""
    unwanted = {"FORCE_COLOR", "NO_COLOR", "COLUMNS", "CLICOLOR_FORCE", "TTY_COMPATIBLE"}
    return {key: value for key, value in os.environ.items() if key not in unwanted}


def run(program: str, *words: str) -> Ended:
    """Run a program of the environment that the tests run in, and wait for its end."""
    done = fork_server.run(program, *words, cwd=REPOSITORY, env=environment(), seconds=SECONDS)
    return Ended(done.returncode, done.stdout, done.stderr, *done.usage)


def start(program: str, *words: str) -> Ended:
    """Run it as `run` does, in a process of its own: Python's start and all imports, too."""
    done = subprocess.run(
        [BIN / program, *words],
        cwd=REPOSITORY,
        env=environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    return Ended(done.returncode, done.stdout, done.stderr)

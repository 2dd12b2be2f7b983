"""Runs the installed commands as a user does: from the repository root, with pipes, no terminal."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
SECONDS = 30


@dataclass(frozen=True)
class Ended:
    """How a command ended: exit code, stdout and stderr."""

    code: int
    out: str
    err: str


def environment() -> dict[str, str]:
    """The caller's, without what would colour or widen the output of any program."""
    unwanted = {"FORCE_COLOR", "NO_COLOR", "COLUMNS", "CLICOLOR_FORCE", "TTY_COMPATIBLE"}
    return {key: value for key, value in os.environ.items() if key not in unwanted}


def run(program: str, *words: str) -> Ended:
    """Run a program of the environment that the tests run in, and wait for its end."""
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

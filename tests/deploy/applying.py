"""Runs the deploy's script commands on this machine, as pyinfra would on a node."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
from collections.abc import Callable, Mapping

from pyinfra.api import StringCommand

from tests.shells import SHELLS as ALL_SHELLS

SHELLS = ["dash", "bash", "busybox"]
Done = subprocess.CompletedProcess[bytes]


def text_of(command: StringCommand) -> str:
    """Return what the node's shell gets as its one argument."""
    return str(command.get_raw_value())


def apply(
    shell: str,
    command: StringCommand | str,
    env: Mapping[str, str] | None = None,
    largest_file: int | None = None,
    user: int | None = None,
) -> Done:
    """Run a command; `largest_file` stands for a disk with room for no larger file."""
    text = command if isinstance(command, str) else text_of(command)
    lines = () if isinstance(command, str) else command.connector_arguments.get("_stdin", ())
    program, *options = ALL_SHELLS[shell]
    return subprocess.run(
        [str(shutil.which(program)), *options, "-c", text],
        input="".join(f"{line}\n" for line in lines).encode(),
        capture_output=True,
        timeout=30,
        env={**os.environ, **(env or {})},
        # Python ignores SIGXFSZ; a program that inherits this gets an error, as from a full disk.
        restore_signals=False,
        preexec_fn=_limit(largest_file),
        user=user,
    )


def _limit(largest_file: int | None) -> Callable[[], None] | None:
    if largest_file is None:
        return None
    pair = (largest_file, largest_file)
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, pair)


def said(done: Done) -> str:
    """Return what a refused command said, after seeing that it was refused."""
    assert done.returncode != 0
    return done.stderr.decode()

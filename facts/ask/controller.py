"""Running a program on the controller, with a time limit and without stdin."""

import os
import subprocess
from collections.abc import Mapping, Sequence


def run_here(
    argv: Sequence[str],
    seconds: float,
    environment: Mapping[str, str] | None = None,
    encoding: str = "utf-8",
    errors: str = "replace",
    merged: bool = False,
) -> subprocess.CompletedProcess[str]:
    """Return how a program ended; `environment` is added to this process's.

    `errors` decides what happens to bytes that are not valid in `encoding`. `merged` adds stderr to
    stdout. Raises OSError and subprocess.TimeoutExpired.
    """
    return subprocess.run(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT if merged else subprocess.PIPE,
        env={**os.environ, **(environment or {})},
        encoding=encoding,
        errors=errors,
        timeout=seconds,
        check=False,
    )

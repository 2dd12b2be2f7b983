"""The POSIX sh scripts that change a node, each with its variables set in front of it."""

from __future__ import annotations

import shlex
from pathlib import Path

from pyinfra.api import StringCommand

FOLDER = Path(__file__).parent


def script(name: str, stdin: str | None = None, **variables: str) -> StringCommand:
    """Return `name`.sh as one command; `variables` are quoted, `stdin` is a line it reads."""
    assignments = [f"{key}={shlex.quote(value)}" for key, value in variables.items()]
    text = "\n".join([*assignments, (FOLDER / f"{name}.sh").read_text(encoding="utf-8")])
    return StringCommand(text) if stdin is None else StringCommand(text, _stdin=[stdin])

"""Measures a command: wall seconds, and CPU seconds and memory of all that it starts here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.places import HERE

TAKEN = Path(__file__).with_name("taken.py")
_LAST_SECONDS = 1200


@dataclass(frozen=True)
class Command:
    """A command, where it runs, and the exit codes of a run that counts.

    `sockets` is the folder of the connections that it leaves open, which are closed after each run:
    the next one begins without.
    """

    words: Sequence[str]
    folder: Path
    codes: Collection[int] = (0,)
    environment: Mapping[str, str] = field(default_factory=dict)
    sockets: Path | None = None


@dataclass(frozen=True)
class Taken:
    """What a run took: seconds, CPU seconds with its children, MB of its largest process.

    `load` is the machine's load at its end, over a minute.
    """

    wall: float
    cpu: float
    megabytes: float
    load: float


class Failed(Exception):
    """A run that does not count: it ended with another exit code; str() has its last lines."""


def surroundings() -> dict[str, str]:
    """Return this environment without what changes how Python starts, as it does in a shell.

    Python would compile our modules in each run where it may not keep them. Reports are kept apart
    from those of this machine's user.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return {**kept, "XDG_STATE_HOME": str(HERE / "state")}


def measured(command: Command, scratch: Path, before: Sequence[str] = ()) -> Taken:
    """Run a command, with its output in files of `scratch`. Raises Failed.

    `before` are words that start it elsewhere, such as in a namespace; they do not count.
    """
    scratch.mkdir(parents=True, exist_ok=True)
    result, output = scratch / "taken.json", scratch / "output.txt"
    result.unlink(missing_ok=True)
    with output.open("wb") as out:
        subprocess.run(
            [*before, sys.executable, "-S", "-E", str(TAKEN), str(result), *command.words],
            cwd=command.folder,
            env={**surroundings(), **command.environment},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            timeout=_LAST_SECONDS,
            check=False,
        )
    _close(command.sockets)
    taken = json.loads(result.read_text()) if result.exists() else {"code": "no start"}
    code = taken.pop("code")
    if code not in command.codes:
        lines = output.read_text(errors="replace").splitlines()[-5:]
        raise Failed(f"{command.words[0]} ended with {code}: " + " / ".join(lines))
    return Taken(**taken)


def _close(sockets: Path | None) -> None:
    """End the masters of OpenSSH's shared connections."""
    for each in sockets.iterdir() if sockets and sockets.is_dir() else ():
        words = ["ssh", "-F", "none", "-o", f"ControlPath={each}", "-O", "exit", "bench"]
        subprocess.run(words, capture_output=True, check=False)

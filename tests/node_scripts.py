"""Runs the deploy's sh scripts really, under each kind of sh that nodes have."""

from __future__ import annotations

import atexit
import os
import shlex
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

from pyinfra.api import StringCommand

from gpu_node.lab.machine import as_root
from tests.apart import APART, OWN_TMP
from tests.shells import SHELLS

SECONDS = 60
# Python that waits for a file, its last argument. It ends by itself, should the test fail.
WAIT_FOR_FILE = f"""import os, sys, time
for _ in range({SECONDS * 50}):
    if os.path.exists(sys.argv[-1]): break
    time.sleep(0.02)"""
# What a test puts before every other folder of PATH.
FIRST_IN_PATH = ""


@dataclass(frozen=True)
class Ended:
    """How a script ended: exit code, stdout and stderr."""

    code: int
    out: str
    err: str


@cache
def _applets() -> str:
    """A folder of busybox's own commands: what its sh has on a small image."""
    folder = mkdtemp(prefix="gpu-node-applets-")
    atexit.register(shutil.rmtree, folder)
    subprocess.run(["busybox", "--install", "-s", folder], check=True)
    return folder


def environment(shell: str) -> dict[str, str]:
    """The environment of a shell; busybox gets its own commands before the machine's."""
    path = os.environ["PATH"]
    path = f"{_applets()}:{path}" if shell == "busybox" else path
    return {**os.environ, "PATH": FIRST_IN_PATH + path}


def run(command: StringCommand, shell: str) -> Ended:
    """Run a command as pyinfra does: text to `sh -c`, its lines to stdin."""
    argv = [*SHELLS[shell], "-c", command.get_raw_value()]
    done = subprocess.run(
        argv,
        input=_stdin(command),
        env=environment(shell),
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    return Ended(done.returncode, done.stdout, done.stderr)


def run_apart(
    command: StringCommand,
    shell: str,
    before: str,
    after: Sequence[str] = (),
    beside_others: bool = False,
) -> Ended:
    """Run a command as root among mounts and processes of its own, made by `before`.

    `beside_others`: it sees the machine's processes, too; another test may hold a GPU meanwhile.
    A line of `after` that fails is reported on stderr, and the whole run ends with 99.
    """
    script = [
        "set -e",
        *([] if beside_others else [OWN_TMP]),
        before,
        "set +e",
        f"PATH={shlex.quote(environment(shell)['PATH'])} "
        f"{shlex.join(SHELLS[shell])} -c {shlex.quote(command.get_raw_value())}",
        "code=$?",
        *(
            f"{{ {line}\n}} || {{ echo {shlex.quote(f'NOT SO: {line}')} >&2; code=99; }}"
            for line in after
        ),
        "exit $code",
    ]
    alone = ["unshare", "--mount"] if beside_others else APART
    argv = [*alone, "bash", "-c", "\n".join(script)]
    done = as_root(argv, stdin=_stdin(command), check=False, timeout=SECONDS)
    return Ended(done.returncode, done.stdout, done.stderr)


def _stdin(command: StringCommand) -> str:
    lines = command.connector_arguments.get("_stdin") or []
    return "".join(f"{line}\n" for line in lines)


def until(reported: Callable[[], object]) -> bool:
    """Whether something came true in time; how long a loaded machine takes is not the point."""
    end = time.monotonic() + SECONDS
    while not reported() and time.monotonic() < end:
        time.sleep(0.05)
    return bool(reported())


def tree(folder: Path) -> dict[str, bytes]:
    """Every file below a folder, by its path there; one that goes meanwhile is left out."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            with suppress(FileNotFoundError):
                found[str(path.relative_to(folder))] = path.read_bytes()
    return found

"""The shells that a node's `sh` may be, and machines made of folders of links for PATH."""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

from gpu_node.facts.probe.frame import READER, by_stdin
from gpu_node.facts.probe.protocol import Readings, Section, read, render

# A little less than MAX_ARG_STRLEN of Linux.
LONGEST_ARGUMENT = 120_000

SHELLS: dict[str, list[str]] = {
    "dash": ["dash"],
    "bash-posix": ["bash", "--posix"],
    "bash": ["bash"],
    "busybox": ["busybox", "sh"],
}
# What `sh` is on Debian and Ubuntu, on the rpm family (bash called as sh), and on small images.
SH = ("dash", "bash-posix", "busybox")
# The programs of the probe's script and sections.
PROGRAMS = (
    *(
        "awk",
        "cat",
        "df",
        "env",
        "grep",
        "head",
        "id",
        "kill",
        "ls",
        "od",
        "printf",
        "readlink",
        "sed",
    ),
    *("setsid", "sh", "sleep", "tail", "timeout", "tr", "uname", "xargs"),
    *("cut", "date", "find", "sort", "stat", "wc"),
)


def run(
    shell: str,
    script: str,
    stdin: bytes = b"",
    env: Mapping[str, str] | None = None,
    seconds: float = 120,
) -> subprocess.CompletedProcess[bytes]:
    """Run a script as one -c argument of a shell, as pyinfra does on a node.

    A script without other `stdin` that is longer than an argument may be is sent as a probe's is.
    """
    if not stdin and len(script) > LONGEST_ARGUMENT:
        script, stdin = READER, "".join(f"{line}\n" for line in by_stdin(script)).encode()
    program, *options = SHELLS[shell]
    path = shutil.which(program)
    assert path is not None, f"{program} is not installed"
    return subprocess.run(
        [path, *options, "-c", script],
        input=stdin,
        capture_output=True,
        timeout=seconds,
        env={**os.environ, **(env or {})},
        check=False,
    )


def as_lines(output: bytes) -> list[str]:
    """Return the lines as pyinfra reads them; bytes that are not text are an error."""
    return output.decode("utf-8").removesuffix("\n").split("\n")


def ask(shell: str, sections: Iterable[Section], env: Mapping[str, str] | None = None) -> Readings:
    """Run a probe of `sections` in a shell and read its answer."""
    wanted = list(sections)
    done = run(shell, render(wanted), stdin=b"stdin of the session\n", env=env)
    assert done.stderr.strip() == b""  # a blank line says that it is at work
    return read(as_lines(done.stdout), wanted)


def machine_with(folder: Path, *less: str, sh: str | None = None) -> dict[str, str]:
    """Return an environment whose PATH has the probe's programs less some, `sh` being a shell."""
    folder.mkdir(exist_ok=True)
    for name in PROGRAMS:
        found = shutil.which(name)
        if found is not None and name not in less and not (folder / name).is_symlink():
            (folder / name).symlink_to(found)
    if sh is not None:
        program, *options = SHELLS[sh]
        (folder / "sh").unlink()
        wrapper = " ".join([str(shutil.which(program)), *options])
        (folder / "sh").write_text(f'#!/bin/dash\nexec {wrapper} "$@"\n')
        (folder / "sh").chmod(0o755)
    return {"PATH": str(folder)}


@cache
def at_an_empty_home() -> dict[str, str]:
    """Return an environment in which every user's home is empty.

    A probe has bash read the user's start files, which may take long, or wait, as pyenv's do.
    """
    folder = Path(mkdtemp(prefix="gpu-node-home-"))
    atexit.register(shutil.rmtree, folder)
    (folder / "home").mkdir()
    getent = folder / "getent"
    getent.write_text(
        f"""#!/bin/sh
[ "$1" = passwd ] || exec {shutil.which("getent")} "$@"
{shutil.which("getent")} "$@" | awk -F: -v OFS=: -v home={folder}/home '{{ $6 = home; print }}'
"""
    )
    getent.chmod(0o755)
    return {"PATH": f"{folder}:{os.environ['PATH']}"}


def busybox_machine(folder: Path) -> dict[str, str]:
    """Return an environment whose PATH leads to busybox only."""
    folder.mkdir(exist_ok=True)
    subprocess.run(["busybox", "--install", "-s", str(folder)], check=True, capture_output=True)
    return {"PATH": str(folder)}

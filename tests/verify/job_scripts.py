"""Runs the scripts of a verification on this machine, with each kind of sh that nodes have."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from gpu_node.facts.probe.protocol import Section, read, render
from tests.shells import SHELLS

SECONDS = 60


def with_shell(folder: Path, shell: str) -> dict[str, str]:
    """Return an environment in which `sh` is this shell, and commands in `folder` come first."""
    folder.mkdir(exist_ok=True)
    name = SHELLS[shell][0]
    program = shutil.which(name)
    assert program is not None, f"{name} is not installed"
    if not (folder / "sh").is_symlink():
        (folder / "sh").symlink_to(program)
    return {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}


def run(script: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a script as pyinfra does: as an argument of sh -c."""
    return subprocess.run(
        ["sh", "-c", script],
        stdin=subprocess.DEVNULL,
        env=environment,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


def ask(section: Section, environment: dict[str, str]) -> str:
    """Return what a section answers; raises Unreadable."""
    done = run(render([section]), environment)
    return read(done.stdout.split("\n"), [section]).sections[section.name].require()


def program(folder: Path, name: str, text: str) -> Path:
    """Write an sh script."""
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}")
    path.chmod(0o755)
    return path


def nccl_library(folder: Path) -> Path:
    """Return a libnccl that says that it is 2.19.3, and has nothing else."""
    made, source = folder / "libnccl.so.2", "int ncclGetVersion(int *v) { *v = 21903; return 0; }"
    words = ["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", str(made)]
    subprocess.run(words, input=source, text=True, check=True)
    return made

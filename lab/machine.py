"""Runs commands on the lab's machine, with sudo if they need root."""

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from gpu_node.lab.errors import LabError

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def not_installed(program: str) -> LabError:
    """Return the error of a program that the lab needs."""
    return LabError(f"{program} is not installed; `gpu-node lab up` installs it")


def run(
    argv: Sequence[str | Path], *, stdin: str = "", check: bool = True, timeout: float = 600
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end with output captured; a failure is a LabError with its last line."""
    command = [str(part) for part in argv]
    try:
        done = subprocess.run(
            command,
            input=stdin,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=timeout,
            check=False,
        )
    except FileNotFoundError:
        raise not_installed(command[0]) from None
    except subprocess.TimeoutExpired:
        raise LabError(f"{shown(command)} did not end within {timeout:g} s") from None
    if check and done.returncode != 0:
        reason = last_line(done.stderr) or last_line(done.stdout) or "no output"
        raise LabError(f"{shown(command)} failed ({done.returncode}): {reason}")
    return done


def as_root(
    argv: Sequence[str | Path], *, stdin: str = "", check: bool = True, timeout: float = 600
) -> subprocess.CompletedProcess[str]:
    """`run`, by way of sudo for anyone but root."""
    return run([*sudo(), *argv], stdin=stdin, check=check, timeout=timeout)


def sudo() -> list[str]:
    """Return the prefix of a command that needs root."""
    if os.geteuid() == 0:
        return []
    if not shutil.which("sudo"):
        raise LabError("the lab needs root: run it as root, or install sudo")
    return ["sudo"]


def shown(command: Sequence[str]) -> str:
    """A command short enough for one line of an error."""
    text = " ".join(part for part in command if "\n" not in part)
    return text if len(text) <= 120 else text[:117] + "..."


def last_line(text: str) -> str:
    """Return the last line that is not blank: tools print their error there."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""


def owner() -> tuple[int, int]:
    """Return the calling user: the one who ran sudo, else the user itself."""
    uid, gid = os.environ.get("SUDO_UID"), os.environ.get("SUDO_GID")
    if os.geteuid() == 0 and uid and gid:
        return int(uid), int(gid)
    return os.getuid(), os.getgid()

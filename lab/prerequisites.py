"""Installs by apt what the lab needs of the machine and does not find: see needs.tsv."""

import platform
import shutil
from pathlib import Path

from lab.errors import LabError
from lab.machine import SYSTEM_PATH, last_line, run
from lab.progress import step

INSTALL = Path(__file__).parent / "install.sh"
# A slow mirror, and another process that holds apt's lock for ten minutes.
SECONDS = 2400


def install(group: str = "lab") -> None:
    """Leave the machine with everything that a group of needs.tsv names.

    Nothing is touched where it is all there; a LabError says what cannot be installed.
    """
    check_machine()
    if packages := missing(group):
        with step(f"installing {' '.join(packages)}"):
            done = run(["sh", INSTALL, "install", group], check=False, timeout=SECONDS)
        if done.returncode != 0:
            raise LabError(last_line(done.stderr).removeprefix("set-up: "))


def check_machine() -> None:
    """Refuse in one line a machine that the lab cannot run on."""
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        found = f"{platform.system()} {platform.machine()}"
        raise LabError(f"the lab needs Linux on x86_64, this is {found}")
    if not shutil.which("apt-get"):
        raise LabError("the lab needs Debian or Ubuntu: there is no apt-get here")


def missing(group: str = "lab") -> list[str]:
    """Packages of a group whose commands are not there, each once.

    One that not every distribution has is no reason to call apt, and is not named alone.
    """
    return run(["sh", INSTALL, "missing", group]).stdout.split()


def which(command: str) -> str | None:
    """Where a command is, the system's own directories included, whoever asks."""
    return shutil.which(command, path=SYSTEM_PATH)

"""Installs by apt the programs that the lab needs and does not find: see needs.tsv."""

import platform
import shutil
from pathlib import Path

from gpu_node.lab.errors import LabError
from gpu_node.lab.machine import SYSTEM_PATH, last_line, run
from gpu_node.lab.progress import step

INSTALL = Path(__file__).parent / "install.sh"
# For a slow mirror, and another process that holds apt's lock for ten minutes.
SECONDS = 2400


def install(group: str = "lab") -> None:
    """Install everything that a group of needs.tsv names.

    Changes nothing if all of it is installed; a LabError names what cannot be installed.
    """
    check_machine()
    if packages := missing(group):
        with step(f"installing {' '.join(packages)}"):
            done = run(["sh", INSTALL, "install", group], check=False, timeout=SECONDS)
        if done.returncode != 0:
            raise LabError(last_line(done.stderr).removeprefix("set-up: "))


def check_machine() -> None:
    """Refuse, in one line, a machine that cannot run the lab."""
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        found = f"{platform.system()} {platform.machine()}"
        raise LabError(f"the lab needs Linux on x86_64, this is {found}")
    if not shutil.which("apt-get"):
        raise LabError("the lab needs Debian or Ubuntu: there is no apt-get here")


def missing(group: str = "lab") -> list[str]:
    """Return the packages of a group whose commands are missing, each once.

    One that not every distribution has is no reason to call apt, and is not named alone.
    """
    return run(["sh", INSTALL, "missing", group]).stdout.split()


def which(command: str) -> str | None:
    """Return the path of a command, also in the system's directories, for every user."""
    return shutil.which(command, path=SYSTEM_PATH)

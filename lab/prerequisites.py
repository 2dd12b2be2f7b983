"""Installs by apt what the lab needs of the machine and does not find."""

import platform
import shutil
from collections.abc import Mapping
from pathlib import Path

from lab.errors import LabError
from lab.machine import SYSTEM_PATH, as_root, run
from lab.progress import step

# By command, not by package: where docker is installed its own package brings runc, and asking
# for the distribution's would remove docker.
COMMANDS = {
    "podman": "podman",
    "runc": "runc",
    "mmdebstrap": "mmdebstrap",
    "ssh-keygen": "openssh-client",
    "mount": "mount",
    "ip": "iproute2",
    "conmon": "conmon",
    "cc": "gcc",
    "rsync": "rsync",
}
# podman does not start without what makes its networks, though the lab uses none of them; where
# the distribution has no netavark yet, podman itself depends on what it has instead.
NETAVARK = [Path("/usr/lib/podman/netavark"), Path("/usr/libexec/podman/netavark")]


def install(commands: Mapping[str, str] = COMMANDS) -> None:
    """Leave the machine with everything the lab needs; touch nothing where it is all there."""
    check_machine()
    packages = missing(commands)
    if not packages:
        return
    with step(f"installing {' '.join(packages)}"):
        as_root(["apt-get", "-qq", "update"])
        if "podman" in commands:
            packages = [*packages, *network_plugin()]
        apt = ["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-qq", "install", "-y"]
        as_root([*apt, "--no-remove", "--no-install-recommends", *packages], timeout=1200)


def check_machine() -> None:
    """Refuse in one line a machine that the lab cannot run on."""
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        found = f"{platform.system()} {platform.machine()}"
        raise LabError(f"the lab needs Linux on x86_64, this is {found}")
    if not shutil.which("apt-get"):
        raise LabError("the lab needs Debian or Ubuntu: there is no apt-get here")


def missing(commands: Mapping[str, str] = COMMANDS) -> list[str]:
    """Packages of the commands that are not there, each once."""
    return list(dict.fromkeys(package for name, package in commands.items() if not which(name)))


def network_plugin() -> list[str]:
    """netavark where it is not installed and the distribution has it."""
    if any(map(Path.exists, NETAVARK)):
        return []
    known = run(["apt-cache", "show", "netavark"], check=False).returncode == 0
    return ["netavark"] if known else []


def which(command: str) -> str | None:
    """Where a command is, the system's own directories included, whoever asks."""
    return shutil.which(command, path=SYSTEM_PATH)

"""The program sshd: the machine's own, or that of Debian's package, unpacked and not installed.

An installed openssh-server would listen on every network of this machine.
"""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from bench.nodes.root import as_root
from bench.places import HERE

PACKAGES = ("openssh-server", "libwrap0")
_UNPACKED = HERE / "openssh"
_INSTALLED = Path("/usr/sbin/sshd")


@dataclass(frozen=True)
class Sshd:
    """The program, and the folder of libraries that the machine itself may lack ("" if none)."""

    program: str
    libraries: str


class NoSshd(Exception):
    """There is no sshd, and its package cannot be downloaded; str() is the reason."""


def find() -> Sshd:
    """Return the sshd to run; its package is downloaded once. Raises NoSshd."""
    if _INSTALLED.exists():
        return Sshd(str(_INSTALLED), "")
    program = _UNPACKED / "usr/sbin/sshd"
    if not program.exists():
        _unpack()
    libraries = sorted({str(each.parent) for each in _UNPACKED.rglob("*.so*")})
    return Sshd(str(program), ":".join(libraries))


def _unpack() -> None:
    folder = HERE / "packages"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    made = _UNPACKED.with_name("openssh.new")
    shutil.rmtree(made, ignore_errors=True)
    try:
        _download(folder)
        for each in folder.glob("*.deb"):
            _run(folder, "dpkg-deb", "-x", each.name, str(made))
    except (OSError, subprocess.CalledProcessError) as error:
        words = getattr(error, "stderr", "") or str(error)
        raise NoSshd(
            f"found no {_INSTALLED}, and apt-get cannot download {' '.join(PACKAGES)}: "
            f"{words.strip()}; next: run apt-get update"
        ) from error
    made.rename(_UNPACKED)


def _download(folder: Path) -> None:
    """Download the packages; a new machine, or an old one, has no list or an old one of them."""
    words = ("apt-get", "download", "-qq", *PACKAGES)
    try:
        _run(folder, *words)
    except subprocess.CalledProcessError:
        _run(folder, *as_root(), "apt-get", "update", "-qq")
        _run(folder, *words)


def _run(folder: Path, *words: str) -> None:
    subprocess.run(words, cwd=folder, check=True, capture_output=True, text=True)

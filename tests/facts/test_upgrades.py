"""What an upgrade would install in place of the driver, by stand-ins of the package managers."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path

import pytest
from pyinfra.api import StringCommand

from gpu_node.facts.driver.upgrades import SECTIONS, Upgrade, parse_upgrade
from tests.node_scripts import run_apart

(SECTION,) = SECTIONS
LIBRARY = "/mnt/libnvidia-ml.so.535.154.05"
BEFORE = """
mount -t tmpfs -o mode=755 lab /mnt
touch {library}
ln -s {library} /mnt/libnvidia-ml.so.1
mkdir -p /var/lib/apt/lists /var/lib/dpkg
mount -t tmpfs lists /var/lib/apt/lists
mount -t tmpfs dpkg /var/lib/dpkg
"""
APT = """
echo 'Package: base' >/var/lib/dpkg/status
touch /var/lib/apt/lists/mirror_Packages
"""
DPKG_QUERY = """
case $1 in
  -S)
    echo 'diversion by glx-diversions from: /mnt/libnvidia-ml.so.535.154.05'
    echo 'libnvidia-compute-535:amd64: /mnt/libnvidia-ml.so.535.154.05'
    ;;
  -W)
    case $3 in
      *Want*) echo install libnvidia-compute-535 535.154.05-0ubuntu1
        {held}echo hold nvidia-driver-535 535.154.05-0ubuntu1 ;;
      *) echo 535.154.05-0ubuntu1 ;;
    esac
    ;;
esac
"""
POLICY = """libnvidia-compute-535:
  Installed: 535.154.05-0ubuntu1
  Candidate: {candidate}
  Version table:
     535.183.01-0ubuntu1 500
"""
# As dnf prints it: the name is too long for its column.
LISTED = """Available Upgrades
nvidia-driver-latest-dkms-NVML.x86_64
                      3:535.183.01-1.el7                      cuda-rhel7-x86_64
"""


@pytest.fixture
def folder(programs: Path) -> Path:
    """A folder whose programs come first in PATH."""
    programs.mkdir()
    return programs


def asked(folder: Path, shell: str, before: str, programs: Mapping[str, str]) -> Upgrade:
    """What is read of a machine that has these programs."""
    row = "\tlibnvidia-ml.so.1 (libc6,x86-64) => /mnt/libnvidia-ml.so.1"
    for name, text in {"ldconfig": f"echo '{row}'", **programs}.items():
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)
    before = BEFORE.format(library=LIBRARY) + before
    done = run_apart(StringCommand(SECTION.command), shell, before)
    assert (done.code, done.err) == (0, "")
    return parse_upgrade(done.out)


def _apt(candidate: str, held: bool = False) -> dict[str, str]:
    policy = shlex.quote(POLICY.format(candidate=candidate))
    query = DPKG_QUERY.replace("{held}", "" if held else ": ")
    return {"dpkg-query": query, "apt-cache": f"printf %s {policy}"}


def test_apt_has_a_newer_one(folder: Path, shell: str) -> None:
    """The package of the library, and the candidate."""
    found = asked(folder, shell, APT, _apt("535.183.01-0ubuntu1"))
    assert found == Upgrade(
        package="libnvidia-compute-535",
        version="535.154.05-0ubuntu1",
        manager="apt",
        candidate="535.183.01-0ubuntu1",
        parts=("libnvidia-compute-535",),
    )


def test_apt_holds_it(folder: Path) -> None:
    """A package on hold that needs exactly this version."""
    found = asked(folder, "dash", APT, _apt("535.183.01-0ubuntu1", held=True))
    assert found.held == ("nvidia-driver-535",)


@pytest.mark.parametrize("candidate", ["535.154.05-0ubuntu1", "(none)"])
def test_apt_has_none(folder: Path, candidate: str) -> None:
    """The installed one is the newest."""
    found = asked(folder, "dash", APT, _apt(candidate))
    assert (found.candidate, found.unknown) == ("", "")


def test_apt_has_no_lists(folder: Path) -> None:
    """Then nothing is known of upgrades."""
    before = "echo 'Package: base' >/var/lib/dpkg/status\n"
    found = asked(folder, "dash", before, _apt("535.154.05-0ubuntu1"))
    assert found.unknown == "apt has no package lists; apt-get update downloads them"


RPM = {"rpm": f'test "$4" = {LIBRARY} && echo nvidia-driver-latest-dkms-NVML 535.154.05-1.el7'}


def test_dnf_has_a_newer_one(folder: Path, shell: str) -> None:
    """A line that dnf has wrapped is read."""
    dnf = f"""[ "$1" = -C ] && printf %s {shlex.quote(LISTED)}"""
    found = asked(folder, shell, "", {**RPM, "dnf": dnf})
    assert found == Upgrade(
        package="nvidia-driver-latest-dkms-NVML",
        version="535.154.05-1.el7",
        manager="dnf",
        candidate="535.183.01-1.el7",
    )


@pytest.mark.parametrize(
    ("output", "unknown"),
    [
        ("Error: No matching Packages to list", ""),
        (
            "Error: Cache-only enabled but no cache for 'base'",
            "dnf -C: Error: Cache-only enabled but no cache for 'base'",
        ),
    ],
)
def test_dnf_lists_none(folder: Path, shell: str, output: str, unknown: str) -> None:
    """None is available; or dnf never downloaded what is."""
    dnf = f"echo {shlex.quote(output)} >&2; exit 1"
    found = asked(folder, shell, "", {**RPM, "dnf": dnf})
    assert (found.candidate, found.unknown) == ("", unknown)


def test_the_installer_of_nvidia(folder: Path, shell: str) -> None:
    """No package has the library: none is asked for."""
    rpm = "echo file /mnt/libnvidia-ml.so is not owned by any package; exit 1"
    assert asked(folder, shell, "", {"rpm": rpm, "dnf": "exit 9"}) == Upgrade()

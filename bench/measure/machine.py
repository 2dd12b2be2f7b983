"""What a benchmark ran on, in words: no name and no path of the machine."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from bench.nodes.package import find
from bench.places import OTHERS

_OWN = ("pyinfra", "paramiko")
_OTHERS = ("ansible-core", "mitogen")


def words() -> str:
    """Return processors, memory, system and Python."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    count = len(os.sched_getaffinity(0))
    kernel = ".".join(platform.release().split(".")[:2])
    return (
        f"{count} processor{'s' if count > 1 else ''} ({_model()}), {memory:.0f} GiB of memory, "
        f"Linux {kernel} ({platform.machine()}), {_system()}, Python {platform.python_version()}"
    )


def versions() -> dict[str, str]:
    """Return the versions of what is measured, by name."""
    return dict(_versions())


def _versions() -> Iterator[tuple[str, str]]:
    yield "OpenSSH client", _version("ssh", "-V")
    yield "OpenSSH server", _version(find().program, "-V")
    for name in _OWN:
        yield name, metadata.version(name)
    for name in _OTHERS:
        for found in OTHERS.parent.glob(f"lib/python3*/site-packages/{_file(name)}-*.dist-info"):
            yield name, metadata.PathDistribution(found).version


def _file(name: str) -> str:
    return name.replace("-", "_")


def _version(*command: str) -> str:
    """Return a version of OpenSSH; a server before 9.2 has no option for it."""
    environment = {**os.environ, "LD_LIBRARY_PATH": find().libraries}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    match = re.search(r"OpenSSH_(\S+?)[ ,\n]", done.stdout + done.stderr)
    return match[1] if match else "unknown"


def _model() -> str:
    text = Path("/proc/cpuinfo").read_text()
    match = re.search(r"^(?:model name|CPU part)\s*: (.*)$", text, re.MULTILINE)
    return match[1].strip() if match else "unknown model"


def _system() -> str:
    match = re.search(r'^PRETTY_NAME="?(.*?)"?$', Path("/etc/os-release").read_text(), re.MULTILINE)
    return match[1] if match else "unknown system"

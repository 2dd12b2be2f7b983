"""Runs a machine's disk without its kernel, for packages from the network and for quick builds."""

import os
import re
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gpu_node.lab import apt_sources, lock, roster, tree
from gpu_node.lab.errors import LabError
from gpu_node.lab.kernel import disk
from gpu_node.lab.kernel.machine import Machine
from gpu_node.lab.machine import SYSTEM_PATH, as_root, last_line, sudo
from gpu_node.lab.progress import step

SCRIPT = Path(__file__).with_suffix(".sh")
# The distribution whose packages of the driver are known here.
SUITE = "bookworm"
COMPONENTS = "main contrib non-free non-free-firmware"
# Until apt has the lists of packages, and at the end.
START_SECONDS, END_SECONDS = 300, 60


@contextmanager
def copied() -> Iterator[Path]:
    """Yield a copy of the kernel lane's disk; what a killed run left is removed first."""
    home = roster.cache() / "native"
    with lock.held("native-"):
        as_root(["rm", "-rf", "--one-file-system", home])
        as_root(["mkdir", "-p", home])
        try:
            as_root(["cp", "--sparse=always", disk.place() / "root.raw", home])
            as_root(["chmod", "644", home / "root.raw"])
            yield home / "root.raw"
        finally:
            as_root(["rm", "-rf", "--one-file-system", home])


@contextmanager
def running(machine: Machine, image: Path, kernel: str) -> Iterator[None]:
    """Have a disk answer SSH in the place of a machine that is powered off, as if a kernel ran."""
    namespaces = ["unshare", "--mount", "--pid", "--fork", "--kill-child"]
    with tempfile.TemporaryDirectory(prefix="gpu-node-lab-") as etc:
        for name, text in settings().items():
            path = Path(etc) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        values = [str(image), str(image.with_name("root")), str(machine.port), kernel, etc]
        command = [*sudo(), *namespaces, "sh", "-eu", str(SCRIPT), *values]
        with (machine.home / "native.log").open("w") as log:
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log)
        try:
            with step("starting a node that installs the driver's packages"):
                _wait(machine, process)
            yield
        finally:
            process.communicate(timeout=END_SECONDS)  # its stdin ends, and with that the node


def settings() -> dict[str, str]:
    """The files in /etc by which apt works as on this machine, with the driver's components too."""
    found = {"resolv.conf": Path("/etc/resolv.conf").read_text()}
    for number, source in enumerate(tree.origin()[1]):
        form = "list" if source.startswith("deb") else "sources"
        found[f"apt/sources.list.d/native-{number}.{form}"] = with_driver(source)
    # The stand-ins come first for the scripts of packages, too.
    options = [*apt_sources.options(), f'DPkg::Path "{SYSTEM_PATH}";']
    for name in ("http", "https"):
        if proxy := os.environ.get(f"{name}_proxy"):
            options.append(f'Acquire::{name}::Proxy "{proxy}";')
    found["apt/apt.conf.d/99native"] = "\n".join([*options, ""])
    return found


def with_driver(source: str) -> str:
    """Add to a source the components with the driver, and the suite with other versions of it."""
    source = re.sub(r"(?m)(?<=\s)main\b.*$", COMPONENTS, source)
    source = re.sub(rf"(?m)^(Suites:.*\b{SUITE})(?!\S)", rf"\1 {SUITE}-backports", source)
    return re.sub(rf"(?m)^(deb .* {SUITE})( .*)$", r"\1\2\n\1-backports\2\n", source) + "\n"


def _wait(machine: Machine, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + START_SECONDS
    while machine.run("true").returncode != 0:
        if process.poll() is not None or time.monotonic() > end:
            raise LabError(
                f"{machine.name}: no SSH to its disk: "
                f"{last_line((machine.home / 'native.log').read_text()) or 'no output'}"
            )
        time.sleep(0.5)

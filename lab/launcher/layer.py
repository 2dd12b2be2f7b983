"""Builds the layer that holds the launcher, once, and puts it under the disks of nodes.

python -m gpu_node.lab.launcher.layer builds it while tests use the lab.
"""

import hashlib
import os
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from gpu_node.lab import disks, lock, nodes, prerequisites, roster, tree
from gpu_node.lab.errors import LabError
from gpu_node.lab.machine import as_root, run
from gpu_node.lab.progress import step

HERE = Path(__file__).parent
INSTALL = HERE / "install.sh"
REQUIREMENTS = HERE / "requirements.txt"
PACKAGES = [
    *["openssh-client", "pdsh", "python3-cpuinfo", "python3-packaging", "python3-pydantic"],
    *["python3-setuptools", "python3-torch", "python3-tqdm", "python3-wheel"],
]


def recipe() -> str:
    """A short hash of everything the layer is made from."""
    parts = [tree.recipe(), INSTALL.read_text(), REQUIREMENTS.read_text(), *PACKAGES]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]


def place() -> Path:
    """Return the folder of the layer; it only ever appears complete."""
    return roster.cache() / f"launcher-{recipe()}"


def give(names: Iterable[str]) -> None:
    """Boot nodes again with the launcher installed; a reset removes it."""
    build()
    with lock.held():
        for name in names:
            nodes.put_under(name, place() / "upper")


def build() -> None:
    """Put the layer into the cache, and the nodes' tree, on which it is."""
    with lock.held():
        tree.build()
    with lock.held("launcher-"):
        if not (place() / "upper").is_dir():
            with step("installing PyTorch, DeepSpeed and pdsh, a minute or two"):
                _build()


def _build() -> None:
    remove_outdated()
    half = roster.cache() / f"launcher-building-{os.getpid()}"
    with tempfile.TemporaryDirectory(prefix="gpu-node-lab-") as scratch:
        download(Path(scratch))
        as_root(["mkdir", "-p", half])
        paths = [tree.place(), half, Path(scratch)]
        shell = ["unshare", "--mount", "sh", "-eus"]
        as_root([*shell, *paths, *PACKAGES], stdin=INSTALL.read_text(), timeout=1800)
    as_root(["mv", "-T", half, place()])


def download(into: Path) -> None:
    """Download the packages for pip, which checks each file's sha256."""
    pip = [sys.executable, "-I", "-m", "pip", "download", "-q", "--disable-pip-version-check"]
    kind = ["--no-deps", "--no-build-isolation", "--no-binary", "deepspeed", "--require-hashes"]
    run([*pip, *kind, "-d", into, "-r", REQUIREMENTS])


def remove_outdated() -> None:
    """Remove layers of other recipes that no node's disk uses, and what killed builds left."""
    mounted = disks.MOUNTS.read_text()
    for path in roster.cache().glob("launcher-*"):
        if path != place() and str(path) not in mounted:
            as_root(["rm", "-rf", "--one-file-system", path])


if __name__ == "__main__":
    try:
        prerequisites.install("lab")
        build()
    except LabError as error:
        sys.exit(f"lab: {error}")

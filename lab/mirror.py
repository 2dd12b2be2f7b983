"""Builds the files for the lab's nodes: a cmake release, wheels, and package repositories."""

import hashlib
import os
import tempfile
from pathlib import Path

from gpu_node.lab import cmake, packages, roster, wheels
from gpu_node.lab.machine import as_root


def recipe() -> str:
    """A short hash of everything the mirror is made from."""
    made_from = [cmake.TARBALL_SHA256, packages.recipe(), wheels.recipe()]
    return hashlib.sha256("\0".join(made_from).encode()).hexdigest()[:12]


def directory() -> Path:
    """Return the mirror's folder, one for each recipe; it only ever appears complete."""
    return roster.cache() / f"mirror-{recipe()}"


def remove_outdated() -> None:
    """Delete mirrors of other recipes, and what killed builds left."""
    others = [path for path in roster.cache().glob("mirror*") if path != directory()]
    if others:
        as_root(["rm", "-rf", "--one-file-system", *others])


def build() -> None:
    """Build it in a temporary folder and rename it when it is complete; the tree must exist."""
    half = roster.cache() / f"mirror-building-{os.getpid()}"
    with tempfile.TemporaryDirectory(prefix="gpu-node-lab-") as scratch:
        made = Path(scratch)
        (made / cmake.TARBALL).write_bytes(cmake.tarball(made))
        (made / "wheels").mkdir()
        wheels.all_of_them(made / "wheels")
        as_root(["mkdir", "-p", half])
        as_root(["cp", "-r", made / cmake.TARBALL, made / "wheels", half])
    packages.build(half)
    as_root(["chmod", "-R", "u=rwX,go=rX", half])
    as_root(["mv", "-T", half, directory()])

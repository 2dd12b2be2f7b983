"""Builds the root tree that all nodes share, once, and keeps it in the cache."""

import hashlib
import os
import tempfile
from pathlib import Path

from gpu_node.lab import apt_sources, cmake, roster
from gpu_node.lab.machine import as_root
from gpu_node.lab.progress import step

PACKAGES = [
    *[
        "ca-certificates",
        "createrepo-c",
        "curl",
        "dkms",
        "dnf",
        "dnf-plugins-core",
        "file",
        "gnupg",
    ],
    *["iproute2", "kmod", "less", "lsof", "nano", "openssh-server", "procps", "psmisc", "python3"],
    *["cpio", "python3-pip", "python3-venv", "rpm", "rsync", "screen", "sudo", "systemd"],
    *["xz-utils"],
]
# Of any kernel: modules are really built with them, but never loaded.
HEADERS = "linux-headers-amd64"
HEADERS_OF_UBUNTU = "linux-headers-generic"

# Runs in a separate mount namespace, so that a killed build leaves no mount behind.
BUILD = ["unshare", "--mount", "mmdebstrap", "--mode=root", "--variant=minbase", "--quiet"]
LEFT_OUT = ["doc", "info", "locale", "man"]

FINISH = """\
cd "$1"
rm -f etc/ssh/ssh_host_* etc/apt/apt.conf.d/99mmdebstrap etc/dpkg/dpkg.cfg.d/99mmdebstrap
rm -f etc/hostname etc/resolv.conf
rm -rf var/cache/apt/* var/lib/apt/lists/* var/log/*.log
ln -sf dnf usr/bin/yum
cp -R "$2/usr/." usr/
# The headers in the tree belong to no kernel of a node.
mkdir -p usr/lib/gpu-node-lab
ln -s "$(readlink usr/lib/modules/*/build)" usr/lib/gpu-node-lab/headers
rm -rf usr/lib/modules/*
chown -R 0:0 usr/bin/cmake usr/bin/cpack usr/bin/ctest usr/share/cmake-3.*
test "$(chroot . cmake --version | head -n 1)" = "cmake version $3"
"""


def recipe() -> str:
    """A short hash of everything the tree is made from."""
    suite, sources = origin()
    made_from = [suite, *sources, *packages(), *BUILD, *LEFT_OUT, FINISH, cmake.WHEELS[cmake.OLD]]
    return hashlib.sha256("\0".join(made_from).encode()).hexdigest()[:12]


def origin() -> tuple[str, list[str]]:
    """This machine's suite and its own sources for it."""
    suite = apt_sources.codename(Path("/etc/os-release").read_text())
    return suite, apt_sources.of_this_machine(suite)


def packages() -> list[str]:
    """What the tree is made of, by the names that this machine's distribution has for it."""
    ubuntu = "ID=ubuntu" in Path("/etc/os-release").read_text().splitlines()
    return [*PACKAGES, HEADERS_OF_UBUNTU if ubuntu else HEADERS]


def place() -> Path:
    """Return the folder of the tree; it only ever appears complete."""
    return roster.cache() / f"tree-{recipe()}"


def build() -> None:
    """Leave the tree, which is built where it is missing."""
    if not place().is_dir():
        with step("building the nodes' root tree, one to three minutes"):
            _build()


def _build() -> None:
    """Build the tree in a temporary folder and rename it when it is complete."""
    remove_leftovers()
    half = roster.cache() / f"building-{os.getpid()}"
    as_root(["mkdir", "-p", roster.cache()])
    with tempfile.TemporaryDirectory(prefix="gpu-node-lab-") as scratch:
        debootstrap(half, Path(scratch))
        unpack_cmake(cmake.download(cmake.OLD, Path(scratch)), Path(scratch) / "cmake")
        as_root(["sh", "-eus", half, Path(scratch) / "cmake", cmake.OLD], stdin=FINISH)
    as_root(["mv", "-T", half, place()])


def debootstrap(target: Path, scratch: Path) -> None:
    """Build a minimal system of this machine's distribution with the lab's packages."""
    suite, sources = origin()
    files = []
    for number, source in enumerate(sources):
        files.append(scratch / f"{number}.sources")
        files[-1].write_text(source + "\n")
    paths = [f"/usr/share/{name}/*" for name in LEFT_OUT]
    excluded = [f"--dpkgopt=path-exclude={path}" for path in paths]
    options = [f"--aptopt={option}" for option in apt_sources.options()]
    chosen = ["--format=directory", f"--include={','.join(packages())}", *excluded, *options]
    as_root([*BUILD, *chosen, suite, target, *files], timeout=1800)


def unpack_cmake(wheel: Path, into: Path) -> None:
    """The wheel's program as a package would install it: usr/bin and usr/share."""
    for member in cmake.members(wheel, "usr"):
        if member.path.startswith(("usr/bin/", "usr/share/cmake-")):
            path = into / member.path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(member.content)
            path.chmod(member.mode)


def remove_leftovers() -> None:
    """Remove what killed builds left."""
    for path in roster.cache().glob("building-*"):
        as_root(["rm", "-rf", "--one-file-system", path])


def remove_outdated() -> None:
    """Remove trees of earlier recipes; nothing may be mounted from them any more."""
    for path in roster.cache().glob("tree-*"):
        if path != place():
            as_root(["rm", "-rf", "--one-file-system", path])

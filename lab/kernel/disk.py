"""Makes the disks that a virtual machine starts from, once, and keeps them in the cache."""

import fcntl
import hashlib
import os
import tempfile
from pathlib import Path
from typing import IO, NamedTuple

from gpu_node.lab import disks, hardware, keys, roster, tree
from gpu_node.lab.errors import LabError
from gpu_node.lab.machine import as_root
from gpu_node.lab.progress import step

HERE = Path(__file__).parent
DRIVER = HERE.parent / "driver"
SCRIPTS = [HERE / "assemble.sh", HERE / "install.sh"]
# The two flavours of a distribution's kernel: what is installed, and what takes the place of an
# update, because GRUB sorts its name after the other's.
FLAVOURS = {"debian": ("amd64", "cloud-amd64"), "ubuntu": ("virtual", "lowlatency")}
# What a disk needs to start a machine, beside the kernel.
BOOT = [
    *["dbus", "grub-common", "grub-pc-bin", "grub2-common", "initramfs-tools"],
    *["libpam-systemd", "nfs-kernel-server", "openssh-server", "systemd-sysv", "udev"],
]
# How a user's update installs the other kernel: without its headers.
UPDATING = "apt-get -qq install -y linux-image-"
# This saves an emulated processor work. Where each program lies at the same addresses, qemu
# translates it once and not in each process: that alone halves what a login or a build costs.
CMDLINE = " ".join(
    [
        *["console=ttyS0", "mitigations=off", "norandmaps", "net.ifnames=0", "init_on_alloc=0"],
        *["apparmor=0", "audit=0", "cgroup_disable=memory"],
        # On a busy machine the check of the emulated timer fails, and the kernel panics.
        "no_timer_check",
    ]
)
UUID = "5f0d7a52-3a0e-4b6c-9d6f-6b6567726e6c"


# The key that the machine accepts, which only root reads, and its host key; both throw-away.
KEY, HOST_KEY = "key", "host_key"


class Kernels(NamedTuple):
    """Releases, as `uname -r` prints them: the installed one, and the available one."""

    first: str
    update: str


def place() -> Path:
    """Return the folder of the disks and their machine's keys; it only ever appears complete."""
    return roster.cache() / f"kernel-{recipe()}"


def recipe() -> str:
    """A short hash of everything the disks are made from."""
    parts = [path.read_text() for path in SCRIPTS]
    parts += [*inputs().values(), *flavours(), *BOOT, UPDATING, CMDLINE, UUID, tree.recipe()]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]


def inputs() -> dict[str, str]:
    """The files that the scripts find beside them, by path."""
    files = {f"driver/{path.name}": path.read_text() for path in sorted(DRIVER.iterdir())}
    files["nvidia-smi"] = (disks.STAND_INS / "nvidia-smi").read_text()
    files["as_found.sh"] = disks.script("every_node")
    files["cards.sh"] = disks.script("v100-01")
    files["pci.sh"] = hardware.PCI.read_text()
    return files


def flavours() -> tuple[str, str]:
    """The flavours of this machine's distribution, which is the tree's too."""
    for line in Path("/etc/os-release").read_text().splitlines():
        if line.startswith("ID=") and line[3:].strip("\"'") in FLAVOURS:
            return FLAVOURS[line[3:].strip("\"'")]
    raise LabError(f"the kernel lane supports only the kernels of {' and '.join(FLAVOURS)}")


def build() -> None:
    """Leave finished disks, from the tree, which exists; the caller holds their lock."""
    if place().is_dir():
        return
    with step("installing a kernel, GRUB and the driver on a disk, one to four minutes"):
        remove_outdated()
        _build()


def kernels() -> Kernels:
    """Return the kernels on the disks."""
    return Kernels(*_kernels(place()).read_text().split())


def in_use() -> IO[str]:
    """A lock that keeps the disks in the cache until it is closed or its process ends."""
    file = _kernels(place()).open()
    fcntl.flock(file, fcntl.LOCK_SH)
    return file


def _build() -> None:
    half = roster.cache() / f"kernel-building-{os.getpid()}"
    with tempfile.TemporaryDirectory(prefix="gpu-node-lab-") as scratch:
        for name, text in inputs().items():
            path = Path(scratch) / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        (Path(scratch) / "install.sh").write_text((HERE / "install.sh").read_text())
        for name in (KEY, HOST_KEY):
            keys.make_key(Path(scratch) / name, "gpu-node-lab")
        as_root(["mkdir", "-p", half])
        values = [f"BOOT={' '.join(BOOT)}", f"UUID={UUID}", f"CMDLINE={CMDLINE}"]
        values += [f"UPDATING={UPDATING}"]
        shell = ["unshare", "--mount", "env", *values, "sh", "-eus"]
        as_root(
            [*shell, tree.place(), half, scratch, *flavours()],
            stdin=(HERE / "assemble.sh").read_text(),
            timeout=1800,
        )
        # Written by root: another user could not remove the temporary folder.
        as_root(["sh", "-euc", 'rm -rf "$1"/*', "sh", scratch])
    as_root(["mv", "-T", half, place()])


def remove_outdated() -> None:
    """Remove unused disks of other recipes, and what killed builds left."""
    for path in roster.cache().glob("kernel-*"):
        if path.is_dir() and path != place() and not _is_used(path):
            as_root(["rm", "-rf", "--one-file-system", path])


def _is_used(place: Path) -> bool:
    try:
        with _kernels(place).open() as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # not finished
        return False
    return False


def _kernels(place: Path) -> Path:
    return place / "kernels"

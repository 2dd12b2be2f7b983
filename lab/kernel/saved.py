"""The places of saved machines in the cache: the memory of each, and its disk."""

import hashlib
from pathlib import Path

from gpu_node.lab.kernel import disk, qemu
from gpu_node.lab.machine import as_root

# The update is installed, and the machine runs the kernel before it; and: it runs the update.
WAITING, BOOTED = "waiting", "booted"


def place() -> Path:
    """Return the folder of the saved states and their disks; it only ever appears complete."""
    return disk.place() / f"saved-{recipe()}"


def recipe() -> str:
    """A short hash of what else must be the same for qemu to continue a saved memory."""
    words = [qemu.version(), *qemu.command(Path("/"), 0, qemu.EMULATED)]
    return hashlib.sha256("\0".join(words).encode()).hexdigest()[:12]


def memory(folder: Path, state: str) -> Path:
    """The file of a state's memory."""
    return folder / f"{state}.memory"


def image(folder: Path, state: str) -> Path:
    """The file of a state's disk, a layer over the one that was built."""
    return folder / f"{state}.qcow2"


def throw_away() -> None:
    """Remove a state that does not start, if it exists."""
    as_root(["rm", "-rf", "--one-file-system", place()])

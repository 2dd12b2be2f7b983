"""Makes the lab's package repositories, rpm and deb, of stub libnccls: real packages, signed."""

import hashlib
import tempfile
from pathlib import Path

from gpu_node.lab import tree, wheels
from gpu_node.lab.machine import as_root

RECIPES = Path(__file__).parent / "repositories"
DRIVER = Path(__file__).parent / "driver"
# What the driver's packages contain beside its sources and its library.
SMI = Path(__file__).parent / "stand_ins" / "nvidia-smi"
# NCCL and the CUDA it was built for, as NVIDIA's repositories have them.
RELEASES = [("2.14.3", "11.7"), ("2.18.1", "12.0"), ("2.18.1", "12.1"), ("2.19.3", "12.2")]
# The distribution's NCCL, whose version does not name its CUDA.
DISTRIBUTION = ("2.18.3", "12.2")
# Runs in a separate mount namespace, so that a killed build leaves no mount behind. Writes to the
# tree, as by dkms, go to an overlay.
IN_TREE = """\
mkdir -p "$3/upper" "$3/work"
mount -t overlay -o "lowerdir=$2,upperdir=$3/upper,workdir=$3/work" lab "$2"
mount --bind "$1" "$2/mnt"
mount --bind /dev "$2/dev"
exec chroot "$2" sh /mnt/build.sh
"""
# Its results; `distribution` has the packages of the apt node's distribution.
MADE = ("rpm", "deb", "distribution", "rpm-base", "deb-base", "driver", "repository.asc")


def recipe() -> str:
    """A short hash of everything the packages are made from."""
    parts = [path.read_text() for path in recipes()]
    parts += [str(RELEASES), str(DISTRIBUTION), wheels.NCCL, wheels.CUDA_DRIVER, IN_TREE]
    parts.append(tree.recipe())
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]


def recipes() -> list[Path]:
    """Specs and scripts, and the driver's sources and program."""
    return [*sorted(RECIPES.iterdir()), *sorted(DRIVER.iterdir()), SMI]


def build(into: Path) -> None:
    """Build both repositories and the key that signs them into a folder; the tree must be there."""
    with tempfile.TemporaryDirectory(prefix="gpu-node-lab-") as scratch:
        made = Path(scratch)
        (made / "lib").mkdir()
        for version, cuda in RELEASES:
            wheels.library(made / "lib" / f"{version}+cuda{cuda}.so", version, cuda)
        wheels.library(made / "distribution.so", *DISTRIBUTION)
        wheels.empty_library(made / "libnvidia-ml.so", "libnvidia-ml.so.1")
        wheels.cuda_library(made / "libcuda.so")
        for path in recipes():
            (made / path.name).write_text(path.read_text())
        written = into / "written"
        as_root(["unshare", "--mount", "sh", "-euc", IN_TREE, "sh", made, tree.place(), written])
        as_root(["rm", "-rf", "--one-file-system", written])
        for name in MADE:
            as_root(["cp", "-r", made / name, into / name])
        # Written by root: another user could not remove the temporary folder.
        as_root(["rm", "-rf", *(made / name for name in (*MADE, "home"))])

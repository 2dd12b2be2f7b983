"""The stand-ins of a node, in each shell, with their paths moved to a folder."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from gpu_node.facts.driver.gpus import parse_answers, smi_section
from gpu_node.facts.probe.request import ProbeRequest
from gpu_node.lab import disks, hardware
from tests.shells import SHELLS

PIECES = {path.name: path for path in (*sorted(disks.STAND_INS.iterdir()), hardware.SCRIPT)}
PLACES = ("/usr/lib/gpu-node-lab", "/run/gpu-node-lab", "/sys/module", "/proc/driver", "/boot")
NEWER = "3.10.0-1160.119.1.el7.x86_64"
OLDER = "3.10.0-1160.71.1.el7.x86_64"
CARD = "0, Tesla V100-PCIE-32GB, GPU-8d1b, 32768, 00000000:AF:00.0, 7.0\n"


@pytest.mark.parametrize("piece", PIECES)
@pytest.mark.parametrize("shell", SHELLS)
def test_each_shell_can_parse_it(shell: str, piece: str) -> None:
    program, *options = SHELLS[shell]
    command = [str(shutil.which(program)), *options, "-n", str(PIECES[piece])]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_shellcheck_has_no_objection() -> None:
    command = ["shellcheck", "-x", "-s", "sh", "-f", "gcc", *map(str, PIECES.values())]
    folder = Path(__file__).parents[2]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    assert done.stdout + done.stderr == ""


class Node:
    """The stand-ins in a folder, with the programs under them written by a test."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for place in PLACES:
            self.path(place).mkdir(parents=True)
        for path in disks.STAND_INS.iterdir():
            text = path.read_text()
            for place in PLACES:
                text = text.replace(place, str(root) + place)
            text = text.replace("dev=/dev", f"dev={root}/dev")
            self.program(f"/usr/lib/gpu-node-lab/{path.name}", text)
        self.path("/dev").mkdir()
        self.path("/usr/lib/gpu-node-lab/gpus").write_text(CARD)
        self.path("/run/gpu-node-lab/kernel").write_text(OLDER + "\n")
        self.program("/usr/lib/gpu-node-lab/real/uname", '#!/bin/sh\nexec /bin/uname "$@"\n')
        script = "[ $2 != version ] || echo 535.154.05"
        self.program("/usr/lib/gpu-node-lab/real/date", '#!/bin/sh\nexec /bin/date "$@"\n')
        self.program("/usr/lib/gpu-node-lab/real/modinfo", f"#!/bin/sh\n{script}\n")
        self.program("/usr/lib/gpu-node-lab/real/modprobe", "#!/bin/sh\n")
        self.library("535.154.05")

    def path(self, place: str) -> Path:
        """Return the path here of the node's `place`."""
        return self.root / place.removeprefix("/")

    def program(self, place: str, text: str) -> None:
        """Write a program."""
        self.path(place).parent.mkdir(parents=True, exist_ok=True)
        self.path(place).write_text(text)
        self.path(place).chmod(0o755)

    def library(self, version: str) -> None:
        """The driver's library that the loader has."""
        library = self.path(f"/usr/lib64/libnvidia-ml.so.{version}")
        library.parent.mkdir(parents=True, exist_ok=True)
        library.touch()
        line = f"\\tlibnvidia-ml.so.1 (libc6,x86-64) => {library}"
        self.program("/usr/lib/gpu-node-lab/ldconfig", f"#!/bin/sh\nprintf '{line}\\n'\n")

    def run(self, script: str) -> subprocess.CompletedProcess[str]:
        """Run a script with the stand-ins first in PATH."""
        folder = self.path("/usr/lib/gpu-node-lab")
        environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
        command = ["sh", "-c", f". {folder}/kernel.sh\n{script}"]
        return subprocess.run(command, capture_output=True, text=True, env=environment)

    def load(self) -> None:
        """Load the driver."""
        module = self.path("/lib/extra/nvidia.ko.xz")
        module.parent.mkdir(parents=True)
        module.write_text("module")
        assert self.run(f"load {module}").returncode == 0


@pytest.fixture
def node(tmp_path: Path) -> Node:
    """A node whose driver is not loaded."""
    return Node(tmp_path)


def test_uname_tells_the_kernel_that_booted(node: Node) -> None:
    assert node.run("uname -r").stdout == OLDER + "\n"
    assert OLDER in node.run("uname -a").stdout
    assert node.run("uname -m").stdout == os.uname().machine + "\n"


def test_uname_of_a_node_that_has_not_booted_is_the_real_one(node: Node) -> None:
    node.path("/run/gpu-node-lab/kernel").unlink()
    assert node.run("uname -r").stdout == os.uname().release + "\n"


@pytest.mark.parametrize("ahead", [0, 90, -3600])
def test_the_clock_of_a_node(node: Node, ahead: int) -> None:
    """It differs from this machine's only by the file that is written."""
    if ahead:
        node.path("/run/gpu-node-lab/clock").write_text(f"{ahead}\n")
    before = time.time()
    shown = float(node.run("date -u +%s.%N").stdout)
    assert before - 1 <= shown - ahead <= time.time() + 1
    assert node.run("date -u -d @0 +%Y").stdout == "1970\n"


def test_the_newest_kernel_boots_unless_one_was_chosen(node: Node) -> None:
    """119 is newer than 71, though it sorts before that as text."""
    for kernel in (OLDER, NEWER):
        node.path(f"/boot/vmlinuz-{kernel}").touch()
    assert node.run("grubby --default-kernel").stdout.endswith(f"/boot/vmlinuz-{NEWER}\n")
    chosen = node.path(f"/boot/vmlinuz-{OLDER}")
    assert node.run(f"grubby --set-default {chosen}").returncode == 0
    assert node.run("default-kernel").stdout == OLDER + "\n"
    chosen.unlink()
    assert node.run("default-kernel").stdout == NEWER + "\n"


def test_a_loaded_driver_shows_as_the_real_one(node: Node) -> None:
    node.load()
    version = node.path("/proc/driver/nvidia/version").read_text()
    assert version.startswith(
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.154.05  Thu Dec 28 15:37:48 UTC 2023\n"
    )
    card = node.path("/proc/driver/nvidia/gpus/0000:af:00.0/information").read_text()
    assert card.startswith("Model: \t\t Tesla V100-PCIE-32GB\n")
    assert node.path("/sys/module/nvidia/version").read_text() == "535.154.05\n"
    assert node.path("/sys/module/nvidia/initstate").read_text() == "live\n"
    modules = node.path("/run/gpu-node-lab/modules").read_text()
    assert modules.splitlines() == [
        "nvidia 6 0 - Live 0x0000000000000000 (POE)",
        "nvidia_uvm 0 0 - Live 0x0000000000000000 (POE)",
    ]
    assert node.run("lsmod").stdout.splitlines()[1].split() == ["nvidia", "6", "0"]
    assert sorted(path.name for path in node.path("/dev").iterdir()) == [
        "nvidia-uvm",
        "nvidia0",
        "nvidiactl",
    ]


def test_an_unloaded_driver_leaves_nothing(node: Node) -> None:
    node.load()
    assert node.run("rmmod nvidia").returncode == 0
    assert not node.path("/proc/driver/nvidia").exists()
    assert not list(node.path("/sys/module").iterdir())
    assert not list(node.path("/dev").iterdir())
    assert node.path("/run/gpu-node-lab/modules").read_text() == ""


def test_a_driver_in_use_stays(node: Node) -> None:
    node.load()
    done = node.run(f"exec 9<{node.path('/dev/nvidia0')}; rmmod nvidia")
    assert (done.returncode, done.stderr) == (1, "rmmod: ERROR: Module nvidia is in use\n")
    assert node.path("/sys/module/nvidia").exists()


def test_a_driver_that_is_not_loaded_cannot_be_removed(node: Node) -> None:
    done = node.run("rmmod nvidia")
    assert done.returncode == 1
    assert done.stderr == "rmmod: ERROR: Module nvidia is not currently loaded\n"


def test_nouveau_keeps_the_driver_out(node: Node) -> None:
    """Both need the same GPUs, and the first has them."""
    assert node.run("load /lib/modules/kernel/nouveau.ko").returncode == 0
    assert node.run("load /lib/modules/extra/nvidia.ko").returncode == 1
    assert not node.path("/sys/module/nvidia").exists()
    assert not node.path("/proc/driver/nvidia").exists()


def test_nvidia_smi_without_a_driver(node: Node) -> None:
    for asked in ("nvidia-smi", "nvidia-smi -q"):
        done = node.run(asked)
        assert done.returncode == 9
        assert done.stdout == (
            "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. "
            "Make sure that the latest NVIDIA driver is installed and running.\n\n"
        )


def test_nvidia_smi_tells_everything_by_key(node: Node) -> None:
    """As the probe reads it: each kind of card has its own memory errors."""
    cards = CARD + "1, NVIDIA A100-PCIE-40GB, GPU-8d1c, 40960, 00000000:B0:00.0, 8.0\n"
    node.path("/usr/lib/gpu-node-lab/gpus").write_text(cards)
    node.load()
    section = smi_section(ProbeRequest()).command
    for place in ("/sys/module", "/proc/driver"):
        section = section.replace(place, f"{node.root}{place}")
    first, second = parse_answers(node.run(section).stdout)[0].gpus
    assert (first.name, first.memory, first.driver) == ("Tesla V100-PCIE-32GB", 32768, "535.154.05")
    assert (first.ecc, first.uncorrected, first.retired_pages) == (True, 0, 0)
    assert (second.uncorrected, second.sram_uncorrected, second.remap_pending) == (0, 0, False)
    alone = node.run("nvidia-smi -q -i 0000:b0:00.0").stdout
    assert "GPU-8d1c" in alone and "GPU-8d1b" not in alone


def test_nvidia_smi_with_another_library(node: Node) -> None:
    node.load()
    node.library("550.54.15")
    done = node.run("nvidia-smi -L")
    assert done.returncode == 18
    assert done.stdout == (
        "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 550.54\n"
    )


def test_persistence_mode_stays_until_the_driver_goes(node: Node) -> None:
    node.load()
    asked = "nvidia-smi --query-gpu=driver_version,persistence_mode --format=csv,noheader"
    assert node.run(asked).stdout == "535.154.05, Disabled\n"
    assert (
        "Enabled persistence mode for GPU 00000000:AF:00.0." in node.run("nvidia-smi -pm 1").stdout
    )
    assert node.run(asked).stdout == "535.154.05, Enabled\n"
    assert node.run("rmmod nvidia").returncode == 0
    node.path("/lib/extra/nvidia.ko.xz").unlink()
    node.path("/lib/extra").rmdir()
    node.load()
    assert node.run(asked).stdout == "535.154.05, Disabled\n"

"""Python environments for tests: real ones, with stub NCCL wheels and a torch that loads one."""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from tempfile import mkdtemp

from gpu_node.lab import wheels

# Ends pip, and the script that runs it, when it comes to a file; a .pth runs when Python starts.
KILLER = """
import os, signal, sys
event, _, end = os.environ.get("KILLED_AT", "").partition(" ")
def hook(name, arguments):
    if name == event and any(str(each).rstrip("/").endswith(end) for each in arguments[:2]):
        os.kill(os.getpid() if "KILLED_ALONE" in os.environ else 0, signal.SIGKILL)
sys.addaudithook(hook)
"""
CU11, CU12 = "nvidia-nccl-cu11==2.14.3", "nvidia-nccl-cu12==2.18.1"


@dataclass(frozen=True)
class Environment:
    """A virtual environment, whose pip finds only the stub wheels."""

    prefix: Path

    @property
    def python(self) -> Path:
        return self.prefix / "bin" / "python"

    @property
    def packages(self) -> Path:
        return next(self.prefix.glob("lib/python3*/site-packages"))

    @property
    def library(self) -> Path:
        """The file that all NCCL wheels own."""
        return self.packages / wheels.LIBRARY

    def without_pip(self) -> Environment:
        """The same as uv makes it: its base alone has a pip."""
        real, release = Path(sys.base_prefix), self.packages.parent.name
        base = self.prefix.with_name(f"{self.prefix.name} base")
        own = base / "lib" / release / "site-packages"
        for folder in (own, base / "bin"):
            folder.mkdir(parents=True)
        shutil.copy(real / "bin" / release, base / "bin" / release)
        for each in (real / "lib" / release).iterdir():
            if each.name != own.name:
                (own.parent / each.name).symlink_to(each)
        for each in self.packages.glob("pip*"):
            each.rename(own / each.name)
        config = self.prefix / "pyvenv.cfg"
        lines = [line for line in config.read_text().splitlines() if not line.startswith("home")]
        config.write_text("\n".join([f"home = {base}/bin", "uv = 0.9.5", *lines, ""]))
        return self

    def pip(self, *words: str) -> str:
        """Run its pip, and return the output."""
        done = subprocess.run(
            [self.python, "-m", "pip", "--disable-pip-version-check", *words],
            env=clean(),
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    @property
    def distributions(self) -> dict[str, str]:
        """The versions of what is installed, by name, as `pip list` prints them.

        What begins with ~ is what pip had moved away when it was killed.
        """
        folders = [each for each in self.packages.glob("*.dist-info") if each.name[0] != "~"]
        found = [metadata.PathDistribution(each) for each in folders]
        assert len(found) == len({each.metadata["Name"] for each in found}), folders
        return {each.metadata["Name"]: each.version for each in found}

    def let_be_killed(self) -> None:
        """From now on its pip ends where the variable KILLED_AT says."""
        (self.packages / "killer.py").write_text(KILLER)
        (self.packages / "killer.pth").write_text("import killer\n")

    def left_by_pip(self) -> list[str]:
        """What a killed pip had moved away, or not written whole."""
        found = (path.relative_to(self.packages) for path in self.packages.rglob("*"))
        return [str(each) for each in found if "~" in each.name or each.suffix == ".tmp"]

    def imports_torch(self) -> str:
        """Return the NCCL of torch after its import, or why the import fails."""
        done = subprocess.run(
            [self.python, "-c", "import torch; print(torch.nccl)"],
            env=clean(),
            capture_output=True,
            text=True,
        )
        return done.stdout.strip() or done.stderr.strip().splitlines()[-1]


def _folder(prefix: str) -> Path:
    """Make a folder that is removed when the tests end."""
    folder = Path(mkdtemp(prefix=prefix))
    atexit.register(shutil.rmtree, folder)
    return folder


@cache
def index() -> Path:
    """A folder of wheels: both NCCLs, and torch."""
    folder = _folder("gpu-node-wheels-")
    wheels.nccl_wheel(folder, "nvidia-nccl-cu11", "2.14.3")
    wheels.nccl_wheel(folder, "nvidia-nccl-cu12", "2.18.1")
    wheels.nccl_wheel(folder, "nvidia-nccl-cu12", "2.20.5")
    wheels.torch_wheel(folder)
    return folder


@cache
def _empty(python: str) -> Path:
    """An environment with pip alone; each test copies it, which is quicker than making one."""
    folder = _folder("gpu-node-environment-")
    words = ["-m", "venv", "--copies", "--without-pip", str(folder)]
    subprocess.run([python, *words], check=True)
    packages = Environment(folder).packages
    # Its code is that of the tests' own environment, which is compiled.
    found = Path(str(metadata.distribution("pip").locate_file("")))
    for path in (found / "pip", *found.glob("pip-[0-9]*.dist-info")):
        if path.name == "pip":
            (packages / path.name).symlink_to(path)
        else:
            shutil.copytree(path, packages / path.name)
    (folder / "pip.conf").write_text(f"[global]\nno-index = true\nfind-links = {index()}\n")
    return folder


def environment(into: Path, *installed: str, python: str = sys.executable) -> Environment:
    """A new environment with wheels installed in this order, one after the other.

    They are unpacked, which is what pip does with them and takes a hundredth of its time. `python`
    is the one that it is made with.
    """
    shutil.copytree(_empty(python), into, symlinks=True)
    made = Environment(into)
    for requirement in installed:
        unpack(_wheel(requirement), made)
    return made


def unpack(wheel: Path, made: Environment) -> None:
    """Install a wheel, as pip would."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(made.packages)


def bare(into: Path, wheels: Path) -> Environment:
    """A new environment without packages, whose pip finds what is in a folder of wheels."""
    made = environment(into)
    (into / "pip.conf").write_text(f"[global]\nno-index = true\nfind-links = {wheels}\n")
    return made


def unpacked(requirement: str) -> bytes:
    """Return the library in an NCCL wheel."""
    with zipfile.ZipFile(_wheel(requirement)) as archive:
        return archive.read(wheels.LIBRARY)


def _wheel(requirement: str) -> Path:
    name, _, version = requirement.partition("==")
    (found,) = index().glob(f"{name.replace('-', '_')}-{version or '*'}-*.whl")
    return found


def clean() -> dict[str, str]:
    """Return the environment without variables that change what pip finds or a program loads."""
    return {
        key: value for key, value in os.environ.items() if key[:4] not in ("PIP_", "LD_L", "LD_P")
    }

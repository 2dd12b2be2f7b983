"""DeepSpeed and torch themselves: their code, run over stub programs, agrees with the rules.

The code is that of the packages: torch's cpp_extension.py, DeepSpeed's builder.py. torch's compiled
library is not needed, and replaced by a stub; nvcc and c++ are scripts that print a version.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp

import pytest

from gpu_node.drift.engine.check import check
from gpu_node.facts.nccl.on_node import builds
from gpu_node.facts.probe.protocol import read, render
from gpu_node.facts.probe.request import ProbeRequest
from gpu_node.facts.toolchain import build
from gpu_node.facts.toolchain.build import Build
from tests.drift import states
from tests.shells import as_lines

pytestmark = pytest.mark.real_wheels

TORCH, DEEPSPEED = "torch==2.13.0", "deepspeed==0.14.0"
# What cpp_extension.py imports of torch, all of it Python.
NEEDED = (
    *("torch/utils/cpp_extension.py", "torch/_appdirs.py", "torch/torch_version.py"),
    *("torch/utils/file_baton.py", "torch/utils/_cpp_extension_versioner.py"),
    *("torch/utils/hipify/", "torch/_vendor/", "torch/include/c10/util/C++17.h"),
)
# Instead of torch's compiled library: a build for CUDA, on a machine whose GPUs do not matter.
INIT = """
import types
from torch.version import __version__, cuda as _cuda
from torch import version
from torch.torch_version import TorchVersion
__version__ = TorchVersion(__version__)
cuda = types.SimpleNamespace(is_available=lambda: True, _is_compiled=lambda: True)
xpu = types.SimpleNamespace(_is_compiled=lambda: False, get_arch_list=lambda: [])
"""
# What each is asked; the exit code is 0 for yes.
OF_DEEPSPEED = "import builder; builder.assert_no_cuda_mismatch()"
OF_TORCH = """
from torch.utils import cpp_extension as torch
compiler = torch.get_cxx_compiler()
accepted, version = torch.get_compiler_abi_compatibility_and_version(compiler)
torch._check_cuda_version(compiler, version)
"""
OF_NINJA = "from torch.utils import cpp_extension; cpp_extension.verify_ninja_availability()"
HOME = "from torch.utils import cpp_extension; print(cpp_extension.CUDA_HOME)"


def download(into: Path, requirement: str, *words: str, **variables: str) -> Path:
    """Return what this machine's pip gets for a requirement."""
    pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(into)]
    done = subprocess.run(
        [*pip, *words, requirement],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        output = done.stderr.strip().splitlines() or ["no output"]
        pytest.fail(
            f"{requirement} is not available: pip: {output[-1]}. This lane needs a package index "
            "that has it, or a folder: set PIP_INDEX_URL, or PIP_FIND_LINKS",
            pytrace=False,
        )
    (found,) = into.iterdir()
    return found


@pytest.fixture(scope="session")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of packages: torch's Python files, and DeepSpeed with its op_builder."""
    made = tmp_path_factory.mktemp("packages")
    wheel = download(tmp_path_factory.mktemp("torch"), TORCH, "--only-binary=:all:")
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if name.startswith(NEEDED):
                archive.extract(name, made)
    (made / "torch" / "__init__.py").write_text(INIT)
    (made / "torch" / "utils" / "__init__.py").touch()
    # pip asks its setup.py for the name, which runs without a torch that compiles.
    words = ("--no-binary=deepspeed", "--no-build-isolation", "--use-pep517")
    source = download(tmp_path_factory.mktemp("ds"), DEEPSPEED, *words, DS_BUILD_OPS="0")
    with tarfile.open(source) as archive:
        member = archive.extractfile(f"{source.name.removesuffix('.tar.gz')}/op_builder/builder.py")
        assert member is not None
        target = made / "deepspeed" / "ops" / "op_builder" / "builder.py"
        target.parent.mkdir(parents=True)
        target.write_bytes(member.read())
    (made / "deepspeed-0.14.0.dist-info").mkdir()
    return made


@dataclass(frozen=True)
class Machine:
    """A folder that has the stub programs first in PATH, and the packages."""

    folder: Path
    packages: Path

    @property
    def environment(self) -> dict[str, str]:
        """The variables of a job."""
        return {
            "PATH": f"{self.folder}/bin:{os.environ['PATH']}",
            "PYTHONPATH": f"{self.packages}:{self.packages}/deepspeed/ops/op_builder",
            "CUDA_HOME": str(self.folder / "cuda"),
            "HOME": str(self.folder),
        }

    def write(self, torch: str, nvcc: str, gcc: str) -> None:
        """Give torch's CUDA, the release of nvcc, and the version of c++."""
        text = f"__version__ = '2.13.0+cu'\ncuda = '{torch}'\nhip = None\n"
        (self.packages / "torch" / "version.py").write_text(text)
        patch = "0" if nvcc.count(".") == 1 else nvcc.split(".", 2)[2]
        release = ".".join(nvcc.split(".")[:2])
        self.program(
            "cuda/bin/nvcc", f"Cuda compilation tools, release {release}, V{release}.{patch}"
        )
        # Its real file decides for torch whether it is a GCC.
        self.program("bin/g++", gcc)
        (self.folder / "bin" / "c++").symlink_to("g++")
        self.program("bin/gcc", gcc)

    def program(self, name: str, output: str) -> None:
        """Write a program that prints a line."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\necho '{output}'\n")
        path.chmod(0o755)

    def accepts(self, question: str, **variables: str) -> bool:
        """Whether the package's own code ends without an exception."""
        return self.run(question, **variables).returncode == 0

    def run(self, question: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run Python code with the packages."""
        return subprocess.run(
            [sys.executable, "-B", "-c", question],
            env={**self.environment, **variables},
            capture_output=True,
            text=True,
        )

    def found(self, **variables: str) -> Build:
        """Return what the probe finds of it."""
        section = build.section(ProbeRequest())
        done = subprocess.run(
            ["dash", "-c", render([section])],
            env={**self.environment, **variables},
            capture_output=True,
            check=True,
        )
        readings = read(as_lines(done.stdout), [section])
        found = readings.take(build.NAME, build.parse)
        assert found is not None, readings.unread
        return found

    def rules(self, deepspeed: bool = True, **variables: str) -> dict[str, str]:
        """Return the rules that have a finding about builds, with their severities."""
        listed = [
            ("torch", "2.13.0", str(self.packages / "torch-2.13.0.dist-info")),
            *(
                [("deepspeed", "0.14.0", str(self.packages / "deepspeed-0.14.0.dist-info"))]
                * deepspeed
            ),
        ]
        environment = {
            "torch": {**builds.torch_of(listed), "wheel": None, "nccl": None},
            "deepspeed": builds.deepspeed_of(listed),
            "packages": {"torch": "2.13.0", "ninja": "1.13.2"},
        }
        node = states.state(
            {
                "toolchain": {"build": self.found(**variables).model_dump()},
                "nccl": {"environments": {"/opt/dis": environment}},
            }
        )
        wanted = states.wanted({"nccl_environments": ["/opt/dis"]})
        return {each.rule: each.severity for each in check(node, wanted)}


@pytest.fixture
def machine(packages: Path) -> Iterator[Machine]:
    """A folder that only its owner may change: its programs are run."""
    folder = Path(mkdtemp(prefix="gpu-node-agree-", dir="/var/tmp"))
    folder.chmod(0o755)
    yield Machine(folder, packages)
    shutil.rmtree(folder)


@pytest.mark.parametrize(
    ("torch", "nvcc", "accepted"),
    [
        ("12.1", "12.1", True),
        ("12.1", "12.3", True),
        # Not in the list of this release, although newer ones have it.
        ("12.1", "12.4", False),
        ("11.7", "12.2", False),
        ("11.8", "11.0", True),
        ("13.0", "13.0", True),
        ("13.2", "13.0", False),
        ("10.2", "10.1", True),
    ],
)
def test_cuda_mismatch_as_deepspeed(
    machine: Machine, torch: str, nvcc: str, accepted: bool
) -> None:
    """assert_no_cuda_mismatch raises exactly where the rule has an error."""
    machine.write(torch, nvcc, "11.4.0")
    done = machine.run(OF_DEEPSPEED)
    assert (done.returncode == 0) == accepted, done.stderr
    assert accepted or "CUDAMismatchException" in done.stderr
    assert (machine.rules().get("toolchain.cuda-mismatch") != "error") == accepted
    # It is still a mismatch, which the variable hides from DeepSpeed.
    assert machine.accepts(OF_DEEPSPEED, DS_SKIP_CUDA_CHECK="1")
    hidden = machine.rules(DS_SKIP_CUDA_CHECK="1").get("toolchain.cuda-mismatch")
    assert hidden == (None if accepted else "warning")


@pytest.mark.parametrize(
    ("torch", "nvcc", "gcc", "accepted"),
    [
        ("12.1", "12.1", "11.2.1", True),
        ("12.1", "12.1", "4.8.5", False),
        ("12.1", "12.1", "13.1.0", False),
        ("12.1", "12.1", "12.9.9", True),
        ("12.4", "12.4", "13.3.0", True),
        ("11.7", "11.4.48", "11.4.0", False),
        ("11.7", "11.4.152", "11.4.0", True),
        ("11.7", "11.3", "5.0.0", True),
        ("11.7", "11.5", "5.5.0", False),
        ("11.7", "11.0", "10.0.0", False),
        ("13.0", "13.0", "15.2.0", True),
        # torch has no bounds for it.
        ("13.2", "13.2", "99.0.0", True),
    ],
)
def test_compiler_as_torch(
    machine: Machine, torch: str, nvcc: str, gcc: str, accepted: bool
) -> None:
    """_check_cuda_version raises exactly where the rule has a finding; both heed the variable."""
    machine.write(torch, nvcc, gcc)
    done = machine.run(OF_TORCH)
    assert (done.returncode == 0) == accepted, done.stderr
    assert accepted or "required version by CUDA" in done.stderr
    assert ("toolchain.compiler" not in machine.rules()) == accepted
    assert machine.accepts(OF_TORCH, TORCH_DONT_CHECK_COMPILER_ABI="1")
    assert "toolchain.compiler" not in machine.rules(TORCH_DONT_CHECK_COMPILER_ABI="1")


@pytest.mark.parametrize(
    ("torch", "nvcc", "accepted"),
    [
        ("12.1", "12.8", True),
        ("12.1", "11.8", False),
        ("13.0", "12.9", False),
        ("11.7", "11.8", True),
        ("12.4", "12.0", True),
    ],
)
def test_cuda_mismatch_as_torch(machine: Machine, torch: str, nvcc: str, accepted: bool) -> None:
    """Without DeepSpeed, torch's own check decides: only another major version is refused."""
    machine.write(torch, nvcc, "8.5.0")
    done = machine.run(OF_TORCH)
    assert (done.returncode == 0) == accepted, done.stderr
    found = machine.rules(deepspeed=False).get("toolchain.cuda-mismatch")
    assert found == (None if accepted else "warning")


def test_the_order_of_places(machine: Machine) -> None:
    """CUDA_HOME, CUDA_PATH, nvcc in PATH, as _find_cuda_home has it."""
    machine.write("12.1", "12.1", "11.2.1")
    other = machine.folder / "other"
    shutil.copytree(machine.folder / "cuda", other)
    path = f"{other}/bin:{machine.environment['PATH']}"
    for variables in (
        {"CUDA_PATH": str(other)},
        {"CUDA_HOME": "", "CUDA_PATH": str(other)},
        {"CUDA_HOME": str(other / "missing")},
        {"CUDA_HOME": "", "PATH": path} | {"CUDA_PATH": str(machine.folder / "cuda")},
    ):
        done = machine.run(HOME, **variables)
        assert done.stdout.strip() == machine.found(**variables).cuda, done.stderr


def test_ninja_as_torch(machine: Machine) -> None:
    """The program in PATH decides, whatever the environment has."""
    machine.write("12.1", "12.1", "11.2.1")
    machine.program("bin/ninja", "1.11.1")
    only = {"PATH": f"{machine.folder}/bin:/usr/sbin"}
    assert machine.accepts(OF_NINJA, **only)
    (machine.folder / "bin" / "ninja").unlink()
    done = machine.run(OF_NINJA, PATH=str(machine.folder / "bin"))
    assert "Ninja is required to load C++ extensions" in done.stderr

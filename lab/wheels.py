"""Makes wheels that collide like NVIDIA's: stub NCCLs with one path, and a torch that loads one."""

import base64
import hashlib
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from gpu_node.lab.machine import run

# The path of the library in each nvidia-nccl-cuXX wheel, and from torch's folder to it.
LIBRARY = "nvidia/nccl/lib/libnccl.so.2"
RPATH = "$ORIGIN/../../nvidia/nccl/lib"
# As in torch 2.1.2: the result of torch.cuda.get_arch_list().
ARCHITECTURES = "sm_50 sm_60 sm_70 sm_75 sm_80 sm_86 sm_90"
CUDA = {"nvidia-nccl-cu11": "11.0", "nvidia-nccl-cu12": "12.1"}
NCCL = """
int ncclGetVersion(int *version) {{ *version = {code}; return 0; }}
const char ncclStub[] = "NCCL version {version}+cuda{cuda}";
"""
# A libcuda whose cuInit succeeds, as the driver's on a node that is well.
CUDA_DRIVER = "int cuInit(unsigned flags) { return 0; }\n"
TORCH = """
int ncclGetVersion(int *version);
int torchNccl(void) { int version = 0; ncclGetVersion(&version); return version; }
"""
INIT = """\
import ctypes
import os

from torch.version import __version__, cuda

_library = ctypes.CDLL(os.path.join(os.path.dirname(__file__), "lib", "libtorch_cuda.so"))
nccl = _library.torchNccl()
"""
# The mirror's wheels beside torch; pyarrow stands for a package that the inventory pins.
SERVED = [("nvidia-nccl-cu11", "2.14.3"), ("nvidia-nccl-cu12", "2.18.1")]
PLAIN = [("pyarrow", "11.0.0"), ("pyarrow", "15.0.2")]
# What DeepSpeed needs to compile its operators: older releases have this script around the program.
NINJA = """\
#!python
import sys

from ninja import ninja

sys.exit(ninja())
"""
# No C library is linked in, so that no headers of one are needed.
COMPILE = ["cc", "-shared", "-fPIC", "-nostdlib", "-O1", "-s"]


def recipe() -> str:
    """The sources of the wheels."""
    return Path(__file__).read_text()


def all_of_them(into: Path) -> None:
    """Every wheel that the mirror serves."""
    for name, version in SERVED:
        nccl_wheel(into, name, version)
    for name, version in PLAIN:
        wheel(into, name, version, {f"{name}/__init__.py": b""})
    ninja_wheel(into)
    torch_wheel(into)


def code(version: str) -> int:
    """Return the number that ncclGetVersion returns."""
    major, minor, patch = map(int, version.split("."))
    return major * 10000 + minor * 100 + patch


def library(target: Path, version: str, cuda: str) -> Path:
    """Compile a libnccl.so.2 that returns its version."""
    source = target.with_suffix(".c")
    source.write_text(NCCL.format(code=code(version), version=version, cuda=cuda))
    run([*COMPILE, "-Wl,-soname,libnccl.so.2", "-o", target, source])
    return target


def empty_library(target: Path, soname: str) -> Path:
    """Compile an empty library with this name."""
    source = target.with_suffix(".c")
    source.write_text("extern int nothing;\n")
    run([*COMPILE, f"-Wl,-soname,{soname}", "-o", target, source])
    return target


def cuda_library(target: Path) -> Path:
    """Compile a libcuda."""
    source = target.with_suffix(".c")
    source.write_text(CUDA_DRIVER)
    run([*COMPILE, "-Wl,-soname,libcuda.so.1", "-o", target, source])
    return target


def torch_library(target: Path, rpath: bool) -> Path:
    """Compile a libtorch_cuda.so that needs libnccl.so.2, with DT_RPATH or without."""
    with tempfile.TemporaryDirectory() as folder:
        nccl = library(Path(folder) / "libnccl.so.2", "2.18.1", "12.1")
        source = Path(folder) / "torch.c"
        source.write_text(TORCH)
        paths = ["-Wl,--disable-new-dtags", f"-Wl,-rpath,{RPATH}"] if rpath else []
        run([*COMPILE, *paths, "-o", target, source, nccl])
    return target


def nccl_wheel(into: Path, name: str, version: str) -> Path:
    """A wheel of NVIDIA's name, path and RECORD, with a stub inside."""
    with tempfile.TemporaryDirectory() as folder:
        stub = library(Path(folder) / "libnccl.so.2", version, CUDA[name])
        return wheel(into, name, version, {LIBRARY: stub.read_bytes()})


def ninja_wheel(into: Path) -> Path:
    """A wheel of ninja with a program that prints its version."""
    files = {
        "ninja/__init__.py": b"def ninja():\n    print('1.11.1')\n",
        "ninja-1.11.1.data/scripts/ninja": NINJA.encode(),
    }
    return wheel(into, "ninja", "1.11.1", files)


def torch_wheel(
    into: Path, version: str = "2.1.2+cu121", pin: str = "nvidia-nccl-cu12==2.18.1"
) -> Path:
    """A wheel of a torch that loads its NCCL when it is imported."""
    with tempfile.TemporaryDirectory() as folder:
        built = torch_library(Path(folder) / "libtorch_cuda.so", rpath=bool(pin)).read_bytes()
    text = f"__version__ = '{version}'\ncuda = '12.1'\n"
    files = {
        "torch/__init__.py": INIT.encode(),
        "torch/version.py": text.encode(),
        "torch/lib/libtorch_cuda.so": built,
        "torch/lib/libtorch_python.so": b"\0" + ARCHITECTURES.encode() + b"\0",
    }
    return wheel(
        into, "torch", version, files, [f'{pin} ; platform_system == "Linux"'] if pin else []
    )


def wheel(
    into: Path, name: str, version: str, files: Mapping[str, bytes], requires: Sequence[str] = ()
) -> Path:
    """Write a wheel as pip takes it: the files, METADATA, WHEEL, and the RECORD of all of them."""
    stem = f"{name.replace('-', '_')}-{version}"
    info = f"{stem}.dist-info"
    metadata = [f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}"]
    metadata += [f"Requires-Dist: {each}" for each in requires]
    tags = "Wheel-Version: 1.0\nGenerator: lab\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    held = dict(files)
    held[f"{info}/METADATA"] = "\n".join([*metadata, ""]).encode()
    held[f"{info}/WHEEL"] = tags.encode()
    record = "".join(f"{path},{_sum(data)},{len(data)}\n" for path, data in held.items())
    held[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    path = into / f"{stem}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for member, data in held.items():
            info_of = zipfile.ZipInfo(member)
            info_of.external_attr = (0o100755 if ".data/scripts/" in member else 0o100644) << 16
            archive.writestr(info_of, data)
    return path


def _sum(data: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
    return f"sha256={digest}"

"""The section about builds, run by each shell over stub programs; what a library was built for."""

from __future__ import annotations

import io
import os
import shutil
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path
from tempfile import mkdtemp

import pytest

from gpu_node.facts.nccl.on_node import builds, loading
from gpu_node.facts.probe.protocol import read, render
from gpu_node.facts.probe.request import ProbeRequest
from gpu_node.facts.toolchain import build
from gpu_node.facts.toolchain.build import Build
from gpu_node.lab.machine import as_root
from tests.shells import SHELLS, as_lines

NVCC = "#!/bin/sh\n[ $1 = -V ] && echo 'Cuda compilation tools, release 12.1, V12.1.105'\n"
GCC = '#!/bin/sh\n[ "$*" = "-dumpfullversion -dumpversion" ] && echo %s\n'
HEADER = "#error -- unsupported GNU version! gcc versions later than 12 are not supported!\n"


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that only its owner may change, all the way from /."""
    made = Path(mkdtemp(prefix="gpu-node-build-", dir="/var/tmp"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


def program(path: Path, text: str) -> Path:
    """Write a program."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def toolkit(root: Path) -> Path:
    """A CUDA toolkit whose nvcc shows its release, and whose header has a limit."""
    program(root / "bin" / "nvcc", NVCC)
    header = root / "include" / "crt" / "host_config.h"
    header.parent.mkdir(parents=True)
    header.write_text(HEADER)
    return root


def asked(shell: str, path: str = "", **variables: str) -> Build:
    """Ask the section in a shell with this PATH in front."""
    section = build.section(ProbeRequest())
    name, *options = SHELLS[shell]
    environment = {"PATH": f"{path}{os.environ['PATH']}", "HOME": "/nonexistent", **variables}
    words = [str(shutil.which(name)), *options, "-c", render([section])]
    done = subprocess.run(words, env=environment, capture_output=True, check=True)
    readings = read(as_lines(done.stdout), [section])
    found = readings.take(build.NAME, build.parse)
    assert found is not None, readings.unread
    return found


def noexec(folder: Path, shell: str, *mounts: str, **variables: str) -> dict[str, str]:
    """What the section finds of mounts with noexec, by variable; a + comes before those without."""
    section = build.section(ProbeRequest())
    (folder / "script").write_text(render([section]))
    change = "".join(
        f"mkdir -p '{folder}/{each.lstrip('+')}' && mount -t tmpfs -o "
        f"{'exec' if each[0] == '+' else 'noexec'} none '{folder}/{each.lstrip('+')}' || exit; "
        for each in mounts
    )
    name, *options = SHELLS[shell]
    words = " ".join([str(shutil.which(name)), *options, str(folder / "script")])
    home = {"HOME": f"{folder}/home", "TMPDIR": f"{folder}/tmp"}
    given = [f"{key}={value}" for key, value in {**home, **variables}.items()]
    command = ["unshare", "--mount", "env", *given, "sh", "-c", f"{change}exec {words}"]
    readings = read(as_lines(as_root(command).stdout.encode()), [section])
    found = readings.take(build.NAME, build.parse)
    assert found is not None, readings.unread
    return {each.variable: f"{each.folder} on {each.mount}" for each in found.noexec or ()}


def test_folders_on_a_mount_with_noexec(folder: Path, shell: str) -> None:
    """The nearest mount counts, of a folder that does not exist yet and behind a link, too."""
    (folder / "home").mkdir()
    (folder / "home" / ".triton").symlink_to(folder / "my disk")
    assert noexec(folder, shell) == {}
    assert noexec(folder, shell, "tmp") == {
        "TORCHINDUCTOR_CACHE_DIR": f"{folder}/tmp on {folder}/tmp"
    }
    assert noexec(folder, shell, "tmp", "my disk", TORCHINDUCTOR_CACHE_DIR=f"{folder}/x") == {
        "TRITON_CACHE_DIR": f"{folder}/home/.triton on {folder}/my disk"
    }
    own = {"TORCH_EXTENSIONS_DIR": f"{folder}/my disk/in/a", "TRITON_CACHE_DIR": f"{folder}/x"}
    assert noexec(folder, shell, "my disk", "+my disk/in", **own) == {}


def test_a_mount_over_a_mount(folder: Path, shell: str) -> None:
    """The later one is visible."""
    own = {"TORCHINDUCTOR_CACHE_DIR": f"{folder}/a"}
    assert [*noexec(folder, shell, "a", "+a", **own)] == []
    assert [*noexec(folder, shell, "+a", "a", **own)] == ["TORCHINDUCTOR_CACHE_DIR"]


def test_the_order_of_torch(folder: Path, shell: str) -> None:
    """CUDA_HOME precedes CUDA_PATH, and that the nvcc in PATH."""
    one, two = toolkit(folder / "one"), toolkit(folder / "two")
    three = toolkit(folder / "three")
    path = f"{three}/bin:"
    assert asked(shell, path, CUDA_HOME=str(one), CUDA_PATH=str(two)).cuda == str(one)
    assert asked(shell, path, CUDA_PATH=str(two)).cuda == str(two)
    found = asked(shell, path)
    assert found.cuda == str(three) and found.nvcc is not None
    assert (found.nvcc.version, found.nvcc.output, found.limit) == ("12.1", "12.1.105", 12)


def test_the_compilers_of_the_shell(folder: Path, shell: str) -> None:
    """CXX and CC name those of torch and nvcc; without them the first c++ and gcc in PATH count."""
    cuda = str(toolkit(folder / "cuda"))
    program(folder / "bin" / "c++", GCC % "4.8.5")
    program(folder / "bin" / "gcc", GCC % "4.8.5")
    program(folder / "new" / "g++-11", GCC % "11.4.0")
    path = f"{folder}/bin:{folder}/new:"
    plain = asked(shell, path, CUDA_HOME=cuda)
    chosen = asked(shell, path, CUDA_HOME=cuda, CXX="ccache g++-11", NVCC_CCBIN=f"{folder}/bin")
    assert plain.cxx is not None and plain.host is not None and chosen.cxx is not None
    assert (plain.cxx.version, plain.cxx.path) == ("4.8.5", f"{folder}/bin/c++")
    assert (plain.host.version, plain.host.path) == ("4.8.5", f"{folder}/bin/gcc")
    assert (chosen.cxx.version, chosen.cxx.path) == ("11.4.0", f"{folder}/new/g++-11")
    assert chosen.host is not None and chosen.host.path == f"{folder}/bin/gcc"


def test_without_nvcc_no_program_runs(folder: Path, shell: str) -> None:
    """A node that compiles nothing pays for nothing."""
    for name in ("c++", "gcc", "ninja"):
        program(folder / "bin" / name, f"#!/bin/sh\ntouch {folder}/ran\n")
    found = asked(shell, f"{folder}/bin:", CUDA_HOME=str(folder / "none"))
    assert (found.cuda, found.nvcc, found.cxx, found.ninja) == (f"{folder}/none", None, None, None)
    assert not (folder / "ran").exists()


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("\x7fELF ninja: build stopped: %s.\n", "ninja"),
        ("\x7fELF must run as root\n", "other"),
        ("#!/bin/sh\nfrom ninja import ninja\n", "ninja"),
        ("#!/opt/gone/bin/python\nfrom ninja import ninja\n", "broken"),
        ("#!/bin/sh\ntouch /var/tmp/gpu-node-ran\n", "other"),
    ],
)
def test_a_ninja_by_its_content(folder: Path, shell: str, text: str, kind: str) -> None:
    """Another program of that name starts a daemon: none is run."""
    program(folder / "bin" / "ninja", text)
    found = asked(shell, f"{folder}/bin:", CUDA_HOME=str(toolkit(folder / "cuda")))
    assert found.ninja is not None
    assert (found.ninja.path, found.ninja.kind) == (f"{folder}/bin/ninja", kind)


def test_what_torch_has_built(folder: Path, shell: str) -> None:
    """By its build.ninja; a folder without a library, and a pipe, are passed over."""
    for name in ("py310_cu121/fused_adam", "cpu_adam", "unfinished", "pipe"):
        (folder / name).mkdir(parents=True)
    (folder / "py310_cu121/fused_adam/fused_adam.so").touch()
    (folder / "py310_cu121/fused_adam/build.ninja").write_text(
        "cuda_cflags = -gencode=arch=compute_80,code=sm_80 -gencode=arch=compute_80,"
        "code=compute_80\n"
    )
    (folder / "cpu_adam/cpu_adam.so").touch()
    (folder / "cpu_adam/build.ninja").write_text("cflags = -march=native -D__AVX512__\n")
    (folder / "unfinished/build.ninja").write_text("cflags = -D__AVX512__\n")
    (folder / "pipe/pipe.so").touch()
    os.mkfifo(folder / "pipe/build.ninja")
    found = asked(shell, TORCH_EXTENSIONS_DIR=str(folder)).built
    assert {each.folder.removeprefix(f"{folder}/"): each for each in found}.keys() == {
        "py310_cu121/fused_adam",
        "cpu_adam",
    }
    by_name = {each.folder.rpartition("/")[2]: each for each in found}
    assert by_name["fused_adam"].architectures == ("compute_80", "sm_80")
    assert (by_name["cpu_adam"].architectures, by_name["cpu_adam"].vectors) == ((), "AVX512")


def test_the_training_users_shell_counts(folder: Path, shell: str) -> None:
    """For another user than the SSH user, the PATH and the variables of that user's shell."""
    as_root(["chown", "-R", "root", folder])
    section = build.section(ProbeRequest(user="daemon", trains_apart=True))
    name, *options = SHELLS[shell]
    (folder / ".bashrc").write_text("echo hello\nexport PATH=/theirs CXX=/x/g++\n")
    (folder / ".bashrc").chmod(0o644)
    # bash reads ~/.bashrc as it does below sshd.
    text = f'#!/bin/sh\nshift 3\nHOME={folder} exec /bin/bash "$@"\n'
    stub = program(folder / "bin" / "su", text)
    words = ["env", f"PATH={stub.parent}:{os.environ['PATH']}", str(shutil.which(name)), *options]
    done = as_root([*words, "-c", render([section])])
    readings = read(as_lines(done.stdout.encode()), [section])
    found = readings.take(build.NAME, build.parse)
    assert found is not None, readings.unread
    assert found.path == ("/theirs",)


def kernel(kind: int, number: int, payload: bytes = b"12345678") -> bytes:
    """A kernel of a container, for an architecture."""
    head = struct.pack("<HHIQIIHHI", kind, 0x101, 64, len(payload), 0, 0, 7, 1, number)
    return head.ljust(64, b"\0") + payload


def container(*kernels: bytes) -> bytes:
    """A container of .nv_fatbin, with its padding."""
    body = b"".join(kernels)
    return struct.pack("<IHHQ", builds.CONTAINER, 1, 16, len(body)) + body + bytes(8)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            container(kernel(2, 70), kernel(1, 70)) + container(kernel(2, 80)),
            {"sm_70", "compute_70", "sm_80"},
        ),
        (b"", set()),
        (bytes(64), set()),
    ],
)
def test_the_kernels_of_a_library(text: bytes, expected: set[str]) -> None:
    """Each container lists an architecture for each of its kernels."""
    assert set(builds.containers(io.BytesIO(text), 0, len(text))) == expected


@pytest.mark.parametrize(
    "text",
    [
        b"unknown!" * 8,
        container(kernel(2, 70))[:-40],
        container(kernel(9, 70)),
        container(kernel(2, 7)),
        struct.pack("<IHHQ", builds.CONTAINER, 1, 16, 2**40),
    ],
)
def test_an_unknown_format(text: bytes) -> None:
    """It is unknown, and not a library without kernels."""
    with pytest.raises((ValueError, struct.error)):
        list(builds.containers(io.BytesIO(text), 0, len(text)))


def test_a_file_that_is_no_library() -> None:
    """Its kernels are unknown."""
    assert builds.kernels(io.BytesIO(b"not ELF")) is None


def test_a_library_without_kernels(tmp_path: Path) -> None:
    """As cpu_adam: it runs on the CPU."""
    with open(shutil.which("env") or "", "rb") as source:
        assert builds.kernels(source) == []


def test_deepspeed_and_torch(tmp_path: Path) -> None:
    """DeepSpeed's own list of releases, its operators; the GCC that this torch accepts."""
    ops = tmp_path / "deepspeed" / "ops"
    (ops / "op_builder").mkdir(parents=True)
    (ops / "op_builder" / "builder.py").write_text(
        'cuda_minor_mismatch_ok = {\n    11: ["11.7", "11.8"],\n    12: ["12.0", "12.1"],\n}\n'
    )
    (ops / "adam").mkdir()
    (ops / "adam" / "cpu_adam_op.so").write_bytes(b"no library")
    found = builds.deepspeed_of(
        [("deepspeed", "0.14.0", str(tmp_path / "deepspeed-0.14.0.dist-info"))]
    )
    assert found["alike"] == [["11.7", "11.8"], ["12.0", "12.1"]]
    (operator,) = found["operators"]
    assert (operator["name"], operator["size"]) == ("adam/cpu_adam_op.so", 10)
    assert operator["architectures"] is None
    assert builds.deepspeed_of([]) is None
    root = tmp_path / "torch"
    (root / "utils").mkdir(parents=True)
    (root / "utils" / "cpp_extension.py").write_text(
        "MINIMUM_GCC_VERSION = (5, 0, 0)\nCUDA_GCC_VERSIONS: VersionMap = {\n"
        "    '11.3': (MINIMUM_GCC_VERSION, (11, 0)),\n    '12.1': ((6, 0, 0), (13, 0)),\n}\n"
    )
    (root / "include" / "c10" / "util").mkdir(parents=True)
    (root / "include" / "c10" / "util" / "C++17.h").write_text(
        "#error \\\n    \"You're trying to build PyTorch with a too old version of GCC. "
        'We need GCC 9 or later."\n'
    )
    assert builds.compilers(str(root)) == {
        "least": "5.0.0",
        "header": "9",
        "cuda": {"11.3": ["5.0.0", "11.0"], "12.1": ["6.0.0", "13.0"]},
    }
    assert builds.compilers(str(tmp_path)) is None


DAMAGED = {
    "a table behind any file": (1 << 63, 64, 1, 0, 0),
    "a table beyond the end": (1 << 62, 64, 1, 0, 0),
    "names of any size": (64, 64, 1, 64, 1 << 62),
    "names behind any file": (64, 64, 1, 1 << 63, 9),
    "a table larger than a sparse file should have": (64, 65535, 65535, 64, 9),
}


@pytest.mark.parametrize("case", DAMAGED)
def test_a_header_that_names_anything(case: str, folder: Path) -> None:
    """It neither ends the answer about the environment nor takes the node's memory."""
    start, each, count, place, size = DAMAGED[case]
    head = b"\x7fELF\2\1".ljust(32, b"\0") + struct.pack("<QQ", start, start)
    head = head.ljust(54, b"\0") + struct.pack("<HHHHH", each, count, each, count, 0)
    torch = folder / "lib" / "libtorch_cuda.so"
    torch.parent.mkdir()
    with torch.open("wb") as library:
        library.write(
            head + struct.pack("<IIQQQQ", 2, 0, place, place, place, size).ljust(64, b"\0")
        )
        library.truncate(5 << 30)
    assert builds.built_in(torch) is None
    with torch.open("rb") as source:
        assert builds.kernels(source) is None
    found = loading.loaded({"root": str(folder)})
    assert found["problem"] == "its ELF header is damaged" or "sparse" not in case

"""What is read of real Python environments: wheels that collide, and the NCCL that torch loads."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest

from gpu_node.deploy.files.downloads import platforms
from gpu_node.facts.nccl import libnccl
from gpu_node.facts.nccl import state as nccl
from gpu_node.facts.nccl.on_node import environment as on_node
from gpu_node.facts.nccl.state import Environment
from gpu_node.facts.node import NodeProbe
from gpu_node.facts.probe.protocol import Reading, Readings, read, render, time_limit
from gpu_node.facts.probe.request import ProbeRequest
from gpu_node.lab import wheels
from tests import environments
from tests.environments import CU11, CU12
from tests.shells import as_lines, ask, run


def read_of(prefix: Path, deep: bool = False, **variables: str) -> Environment | str:
    """Ask about an environment as the probe does; the reason where it is unreadable."""
    sections = nccl.sections(ProbeRequest([str(prefix)], deep))[-1:]
    done = subprocess.run(
        ["dash", "-c", render(sections)],
        env={**environments.clean(), **variables},
        capture_output=True,
        check=True,
    )
    readings = read(as_lines(done.stdout), sections)
    found = readings.take(sections[0].name, nccl.parse_environment)
    return found if found is not None else readings.unread[0].reason


def asked(prefix: Path, deep: bool = False, **variables: str) -> Environment:
    """The same, of one that can be read."""
    found = read_of(prefix, deep, **variables)
    assert isinstance(found, Environment), found
    return found


@pytest.fixture
def made(tmp_path: Path) -> environments.Environment:
    """torch with its own NCCL."""
    return environments.environment(tmp_path / "env", "torch", CU12)


def test_an_environment_as_it_should_be(made: environments.Environment) -> None:
    """torch, its CUDA and its pin; the wheel, whose file is what its RECORD says; all packages."""
    found = asked(made.prefix)
    assert found.torch is not None and found.file is not None and found.loads is not None
    assert (found.torch.version, found.torch.cuda) == ("2.1.2+cu121", "12.1")
    assert (found.torch.wheel, found.torch.nccl) == ("nvidia-nccl-cu12", "2.18.1")
    (wheel,) = found.wheels
    assert (wheel.name, wheel.version, wheel.size) == (
        "nvidia-nccl-cu12",
        "2.18.1",
        found.file.size,
    )
    assert (found.file.path, found.file.version) == (str(made.library), 21801)
    assert found.file.sha256 is None  # nothing gives a reason to read it through
    assert found.loads.reason == "DT_RPATH"
    assert found.loaded is not None and found.loaded.version == 21801
    assert found.packages["nvidia-nccl-cu12"] == "2.18.1" and "pip" in found.packages
    assert found.platform is not None and platforms(found.platform)


@pytest.mark.parametrize(
    ("place", "mark", "maker"),
    [
        ("env", None, None),
        ("env", "env/pyvenv.cfg", "uv"),
        ("env", "poetry.lock", "poetry"),
        ("pypoetry/virtualenvs/llm-Xa1-py3.11", None, "poetry"),
        ("llm/.pixi/envs/default", None, "pixi"),
    ],
)
def test_what_made_an_environment(
    tmp_path: Path, place: str, mark: str | None, maker: str | None
) -> None:
    """Those that install from a lock file, and put no pip into it."""
    made = environments.environment(tmp_path / place, "torch", CU12)
    if mark is not None:
        with (tmp_path / mark).open("a") as file:
            file.write("uv = 0.9.5\n")
    assert (asked(made.prefix).pip, asked(made.prefix).maker) == ("own", maker)


@pytest.mark.parametrize(
    ("version", "pip"), [("22.2.2", None), ("22.3", "base"), ("23.0.1+dfsg", "base"), ("x", None)]
)
def test_an_environment_without_a_pip(
    made: environments.Environment, version: str, pip: str | None
) -> None:
    """That of its base can install into it, from 22.3 on."""
    made.without_pip()
    (info,) = made.prefix.parent.glob("env base/lib/python3*/site-packages/pip-*.dist-info")
    info.rename(info.with_name(f"pip-{version}.dist-info"))
    found = asked(made.prefix)
    assert (found.pip, found.maker) == (pip, "uv")


@pytest.mark.parametrize("name", ["RECORD", "version.py", "METADATA"])
def test_a_pipe_in_the_place_of_a_file(made: environments.Environment, name: str) -> None:
    """It would wait for a writer: the reason has its name, at once."""
    for path in made.packages.glob(f"*/{name}"):
        path.unlink()
        os.mkfifo(path)
    began = time.monotonic()
    found = read_of(made.prefix)
    assert isinstance(found, str) and f"{name} is not a regular file" in found
    assert time.monotonic() - began < 10


def test_deep_compares_the_sum(made: environments.Environment) -> None:
    """On request the library is read through."""
    found = asked(made.prefix, deep=True)
    assert found.file is not None
    assert found.file.sha256 == found.wheels[0].sha256


def test_deep_has_the_time_that_it_takes() -> None:
    """300 MB from a slow disk, and the whole probe waits as long as its sections may."""
    (quick,), (deep,) = (nccl.sections(ProbeRequest(["/e"], each))[-1:] for each in (False, True))
    assert quick.seconds < 60 <= deep.seconds
    probe = NodeProbe()
    probe.command(["/e"], deep=True)
    assert deep in probe.asked and time_limit(probe.asked) > deep.seconds


@pytest.mark.parametrize("order", [(CU12, CU11), (CU11, CU12)], ids=["wrong-last", "right-last"])
def test_two_wheels_of_one_path(tmp_path: Path, order: tuple[str, str]) -> None:
    """Both are listed; the file, and what torch has, is of the one that came last."""
    made = environments.environment(tmp_path / "env", "torch", *order)
    last = order[1].rpartition("==")[2]
    found = asked(made.prefix)
    assert [wheel.name for wheel in found.wheels] == ["nvidia-nccl-cu11", "nvidia-nccl-cu12"]
    assert found.file is not None and found.loaded is not None
    assert (found.file.version, found.loaded.version) == (wheels.code(last), wheels.code(last))
    assert made.imports_torch() == str(wheels.code(last))


def test_a_common_wrong_repair(tmp_path: Path) -> None:
    """pip uninstall takes the shared file along: pip is content, and torch cannot be imported."""
    made = environments.environment(tmp_path / "env", "torch", CU12, CU11)
    made.pip("uninstall", "-q", "-y", "nvidia-nccl-cu11")
    assert "No broken requirements found" in made.pip("check")
    assert "libnccl.so.2" in made.imports_torch()
    found = asked(made.prefix)
    assert found.file is None and found.loaded is None
    assert found.loads is not None and "libnccl.so.2" in (found.loads.problem or "")


@pytest.mark.parametrize("content", [b"", b"half a library", b"\x7fELF"])
def test_a_library_that_is_none(made: environments.Environment, content: bytes) -> None:
    """The answer has the reason why it does not load; the rest is read."""
    made.library.write_bytes(content)
    found = asked(made.prefix)
    assert found.file is not None and found.loads is not None
    assert found.file.version is None and found.file.problem and found.file.cuda is None
    assert found.loads.problem and found.torch is not None


def test_same_size_and_another_version_is_read_through(made: environments.Environment) -> None:
    """The stubs are of one size, as two releases may be: the checksum distinguishes them."""
    other = wheels.library(made.prefix / "libnccl.so.2", "2.14.3", "12.1")
    assert other.stat().st_size == made.library.stat().st_size
    shutil.copy(other, made.library)
    found = asked(made.prefix)
    assert found.file is not None
    assert found.file.sha256 not in (None, found.wheels[0].sha256)


@pytest.fixture
def other(tmp_path: Path) -> Path:
    """Another libnccl, of the system or of a user."""
    folder = tmp_path / "other"
    folder.mkdir()
    return wheels.library(folder / "libnccl.so.2", "2.19.3", "12.3")


def test_rpath_goes_before_a_library_path(made: environments.Environment, other: Path) -> None:
    """LD_LIBRARY_PATH does not change what pip's torch loads."""
    found = asked(made.prefix, LD_LIBRARY_PATH=str(other.parent))
    assert found.loads is not None and found.loaded is not None
    assert (found.loads.reason, found.loaded.version) == ("DT_RPATH", 21801)


def test_a_preload_goes_before_all(made: environments.Environment, other: Path) -> None:
    """It is named as the reason, and the version is that of what it puts there."""
    found = asked(made.prefix, LD_PRELOAD=str(other))
    assert found.loads is not None and found.loaded is not None
    assert (found.loads.reason, found.loaded.version) == ("LD_PRELOAD", 21903)
    assert found.file is not None and found.file.version == 21801
    # Each library's constants name the CUDA that it is built for.
    assert (found.loaded.cuda, found.file.cuda) == ("12.3", "12.1")


@pytest.fixture
def conda(made: environments.Environment) -> environments.Environment:
    """A torch without DT_RPATH, as conda and builds from source have it."""
    wheels.torch_library(made.packages / "torch/lib/libtorch_cuda.so", rpath=False)
    return made


def test_without_rpath_the_library_path_decides(
    conda: environments.Environment, other: Path
) -> None:
    """So a system's libnccl is what such a torch loads."""
    found = asked(conda.prefix, LD_LIBRARY_PATH=f"/nowhere:{other.parent}")
    assert found.loads is not None and found.loaded is not None
    assert (found.loads.reason, found.loaded.version) == ("LD_LIBRARY_PATH", 21903)


def test_without_rpath_and_without_a_system_library(conda: environments.Environment) -> None:
    """torch has none at all, although a wheel is there."""
    found = asked(conda.prefix)
    assert found.loads is not None
    assert found.loads.path is None and "libnccl.so.2" in (found.loads.problem or "")


def test_an_environment_without_torch(tmp_path: Path) -> None:
    """There is nothing to load, and no reason for one."""
    made = environments.environment(tmp_path / "env")
    found = asked(made.prefix)
    assert (found.torch, found.wheels, found.file, found.loads) == (None, (), None, None)


def state_of(prefix: Path, shell: str) -> nccl.NcclState:
    """Ask about an environment in a shell; what else the area asks is left out."""
    (section,) = nccl.sections(ProbeRequest([str(prefix)]))[-1:]
    readings = ask(shell, [section])
    others = {each.name: Reading(0, "", "not asked") for each in libnccl.SECTIONS}
    found = nccl.parse(Readings({**others, **readings.sections}))
    unread = [each for each in readings.unread if each.section == section.name]
    assert not unread or found.environments == {str(prefix): None}
    return found


def test_an_environment_that_is_not_there(tmp_path: Path, shell: str) -> None:
    """Missing is an answer, below a parent that is missing, too; a dangling link is none."""
    for path in (tmp_path / "none", tmp_path / "no" / "envs" / "dis"):
        assert state_of(path, shell).absent == (str(path),)
    (tmp_path / "link").symlink_to(tmp_path / "none")
    for path in (tmp_path / "link", tmp_path):
        assert state_of(path, shell).absent == ()


def test_no_environment() -> None:
    """A folder without a Python is unreadable, with the reason."""
    assert "not found" in str(read_of(Path("/etc")))


# Stands for CPython 2.7: Modules/main.c prints this for an option that it does not know.
OLD = """#!/bin/sh
for code; do :; done
case $1$code in
  (-I*) echo 'Unknown option: -I
usage: /opt/old/bin/python [option] ... [-c cmd | -m mod | file | -] [arg] ...' >&2; exit 2 ;;
  (-E'import sys; print('*) echo {version} ;;
esac
"""


@pytest.mark.parametrize("version", ["2.7", "3.5"])
def test_an_old_python(tmp_path: Path, shell: str, version: str) -> None:
    """It cannot read what is there: that is an answer, with its version."""
    python = tmp_path / "env" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(OLD.replace("{version}", version))
    python.chmod(0o755)
    found = state_of(python.parents[1], shell)
    prefix = str(python.parents[1])
    assert (found.environments, found.old_pythons) == ({prefix: None}, {prefix: version})


def test_a_python_that_fails(tmp_path: Path, shell: str) -> None:
    """A Python of a version that can answer, and does not, is unreadable."""
    python = tmp_path / "env" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(OLD.replace("{version}", "3.11"))
    python.chmod(0o755)
    assert state_of(python.parents[1], shell).old_pythons == {}


def test_a_python_that_hangs(made: environments.Environment) -> None:
    """It costs its own time limit and no more."""
    (made.prefix / "bin" / "python3").unlink()
    (made.prefix / "bin" / "python3").write_text("#!/bin/sh\nsleep 60\n")
    (made.prefix / "bin" / "python3").chmod(0o755)
    (section,) = nccl.sections(ProbeRequest([str(made.prefix)]))[-1:]
    quick = replace(section, seconds=1)
    start = time.monotonic()
    readings = read(as_lines(run("dash", render([quick])).stdout), [quick])
    assert readings.take(section.name, nccl.parse_environment) is None
    assert readings.unread[0].reason == "no answer within 1 s"
    assert time.monotonic() - start < 40


def test_what_torch_and_others_were_built_for(made: environments.Environment) -> None:
    """The list that torch itself would tell, and the libraries of bitsandbytes."""
    found = asked(made.prefix)
    assert found.torch is not None and found.bitsandbytes is None
    assert found.torch.architectures == tuple(wheels.ARCHITECTURES.split())
    folder = made.packages / "bitsandbytes"
    folder.mkdir()
    (made.packages / "bitsandbytes-0.42.0.dist-info").mkdir()
    for name in ("libbitsandbytes_cpu.so", "libbitsandbytes_cuda121.so", "nn.py"):
        (folder / name).touch()
    assert asked(made.prefix).bitsandbytes == (
        "libbitsandbytes_cpu.so",
        "libbitsandbytes_cuda121.so",
    )


def test_an_nccl_within_torch(tmp_path: Path) -> None:
    """Where nothing pins one, the constants of torch's library tell its version."""
    made = environments.environment(tmp_path / "env", "torch")
    wheels.library(made.packages / "torch" / "lib" / "libtorch_cuda.so", "2.14.3", "11.7")
    (info,) = made.packages.glob("torch-*.dist-info")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: torch\nVersion: 2.1.2\n")
    found = asked(made.prefix)
    assert found.torch is not None and found.loads is not None
    assert (found.loads.reason, found.loaded) == ("built in", None)
    assert (found.torch.wheel, found.torch.nccl) == (None, "2.14.3")


@pytest.mark.parametrize(
    "line",
    [
        "cuda = '12.1'",
        "cuda: Optional[str] = '12.1'",
        "cuda: str | None = '12.1'",
        "cuda: Optional[str] = None",
    ],
)
def test_the_cuda_of_torch(made: environments.Environment, line: str) -> None:
    """As the releases of torch have written it."""
    source = f"__version__ = '2.1.2'\nno_cuda = '1'\n{line}\nhip: Optional[str] = '6.0'\n"
    (made.packages / "torch" / "version.py").write_text(source)
    found = asked(made.prefix)
    assert found.torch is not None
    assert found.torch.cuda == (None if line.endswith("None") else "12.1")


@pytest.mark.parametrize("content", [b"", b"no list", b"\0sm_70 is no list of sm_80s\0", b"sm_70"])
def test_a_library_without_the_list(made: environments.Environment, content: bytes) -> None:
    """What is not found is None, and not an empty list."""
    (made.packages / "torch" / "lib" / "libtorch_python.so").write_bytes(content)
    found = asked(made.prefix)
    assert found.torch is not None and found.torch.architectures is None


def test_a_library_preloaded_by_its_name(made: environments.Environment, tmp_path: Path) -> None:
    """A preload without a path is looked for like any other library."""
    wheels.library(tmp_path / "libnccl.so.2", "2.14.3", "11.0")
    found = asked(made.prefix, LD_PRELOAD="libnccl.so.2", LD_LIBRARY_PATH=str(tmp_path))
    assert found.loads is not None and found.loaded is not None
    assert (found.loads.reason, found.loaded.version) == ("LD_PRELOAD", 21403)


def test_packages_before_the_environments_own(
    made: environments.Environment, tmp_path: Path
) -> None:
    """PYTHONPATH goes before them in a job, though the question is asked without it."""
    other = environments.environment(tmp_path / "other", "torch", CU11)
    found = asked(made.prefix, PYTHONPATH=str(other.packages))
    assert found.torch is not None and found.torch.root.startswith(str(other.packages))
    assert f"torch 2.1.2+cu121 in {other.packages}" in found.outside
    assert asked(made.prefix).outside == ()


def test_two_metadata_of_torch(made: environments.Environment) -> None:
    """The version in version.py decides which one counts; nothing may be repaired by it."""
    (true,) = made.packages.glob("torch-*.dist-info")
    false = made.packages / "torch-2.0.1.dist-info"
    shutil.copytree(true, false)
    metadata = (false / "METADATA").read_text().replace("cu12==2.18.1", "cu11==2.14.3")
    (false / "METADATA").write_text(metadata)
    found = asked(made.prefix)
    assert found.torch is not None
    assert (found.torch.wheel, found.torch.nccl) == ("nvidia-nccl-cu12", "2.18.1")
    assert set(found.twice) == {str(true), str(false)}


def test_one_folder_by_two_ways(made: environments.Environment) -> None:
    """lib64 is lib in many Pythons: each wheel is there once."""
    (made.prefix / "lib64").unlink(missing_ok=True)
    (made.prefix / "lib64").symlink_to("lib")
    twice = str(made.packages).replace("/lib/", "/lib64/")
    (made.packages / "zz.pth").write_text(f"import sys; sys.path.append({twice!r})\n")
    found = asked(made.prefix)
    assert [wheel.name for wheel in found.wheels] == ["nvidia-nccl-cu12"]
    assert found.twice == ()


def test_a_name_of_several_lines_is_of_no_package(tmp_path: Path) -> None:
    """What removes metadata that a killed pip has left takes each line for a path."""
    names = ("six-1\nhome\n1.dist-info", "six\nhome\n-1.dist-info", "six-1.dist-info\n")
    for name in (*names, "six-1.0.dist-info"):
        (tmp_path / name).mkdir()
    found = on_node.distributions([tmp_path])
    assert found == [("six", "1.0", str(tmp_path / "six-1.0.dist-info"))]

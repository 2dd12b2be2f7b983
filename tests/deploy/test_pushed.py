"""The wheel that the controller pushes: fetched by its pip, installed on a node without index."""

from __future__ import annotations

import logging
import os
import resource
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest
from pyinfra.api import Host, State
from pyinfra_testing.util import FakeState, create_host

from gpu_node.deploy.files import downloads as controller
from gpu_node.lab.machine import as_root
from tests import environments
from tests.deploy.test_wheels import command, is_whole, pip_as_it_is, repair
from tests.environments import CU11, CU12, Environment
from tests.shells import SHELLS

__all__ = ["pip_as_it_is"]
PLATFORM = "manylinux_2_17_x86_64"


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of wheels of its own, the only one that the controller's pip is pointed to."""
    folder = tmp_path / "index"
    shutil.copytree(environments.index(), folder)
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return folder


@pytest.fixture
def node(tmp_path: Path) -> Environment:
    """An environment with both wheels, whose own pip finds nothing anywhere."""
    made = environments.environment(tmp_path / "env", "torch", CU12, CU11)
    (made.prefix / "pip.conf").write_text("[global]\nno-index = true\n")
    return made


def target(keep: str = CU12, platform: str = PLATFORM) -> Path:
    """Where the controller keeps a wheel."""
    return controller.cache() / controller.wheel_name(keep, "3.10.13", platform)


def fetch(keep: str = CU12, platform: str = PLATFORM, python: str = "3.10.13") -> bool:
    """Fetch it as the operation does."""
    state = FakeState()
    host = cast(Host, create_host(state))
    path = str(target(keep, platform))
    return controller.wheel(cast(State, state), host, keep, python, platform, path)


def push(name: str = "wheel") -> Path:
    """Copy what was fetched to where the operation uploads it."""
    copy = Path("/var/tmp") / f"gpu-node-test-{os.getpid()}-{name}.whl"
    shutil.copy(target(), copy)
    return copy


def without_index(made: Environment) -> None:
    """Let the variables of this test's pip not reach the node's."""
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        del os.environ[name]
    done = subprocess.run(
        [made.python, "-m", "pip", "download", "--no-deps", CU12], capture_output=True, text=True
    )
    assert "No matching distribution" in done.stderr


def tagged(index: Path, tags: str, name: str = "nvidia_nccl_cu12-2.18.1") -> Path:
    """Let the index have that wheel for one platform alone."""
    (there,) = index.glob(f"{name}-*.whl")
    return there.rename(index / f"{name}-{tags}.whl")


def test_fetched_once_and_installed_without_an_index(
    index: Path, node: Environment, shell: str
) -> None:
    """The index may be gone when the second node comes; the copy on the node is taken away."""
    assert fetch()
    shutil.rmtree(index)
    assert fetch()
    pushed = push()
    without_index(node)
    done = repair(node, shell, "nvidia-nccl-cu11", pushed=str(pushed))
    assert (done.code, done.out, done.err) == (0, "", "")
    assert is_whole(node)
    assert not pushed.exists()
    assert [path.name for path in controller.cache().iterdir()] == [target().name]
    assert "file://" not in node.pip("freeze")


@pytest.mark.parametrize(
    ("platform", "tags", "is_taken"),
    [
        ("manylinux_2_17_x86_64", "py3-none-manylinux1_x86_64", True),
        ("manylinux_2_17_x86_64", "py3-none-manylinux2014_x86_64.manylinux_2_17_x86_64", True),
        ("manylinux_2_17_x86_64", "py3-none-manylinux_2_18_x86_64", False),
        ("manylinux_2_36_x86_64", "py3-none-manylinux_2_18_x86_64", True),
        ("manylinux_2_36_aarch64", "py3-none-manylinux_2_18_x86_64", False),
        ("manylinux_2_36_aarch64", "py3-none-manylinux2014_aarch64", True),
        ("manylinux_2_36_x86_64", "cp39-cp39-manylinux_2_18_x86_64", False),
        ("manylinux_2_36_x86_64", "cp310-cp310-manylinux_2_18_x86_64", True),
    ],
)
def test_the_wheel_is_one_for_the_node(
    index: Path, platform: str, tags: str, is_taken: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Its machine, its glibc and its Python count, whatever runs here."""
    tagged(index, tags)
    with caplog.at_level(logging.ERROR, "pyinfra"):
        assert fetch(platform=platform) is is_taken
    assert target(platform=platform).exists() is is_taken
    assert ("No matching distribution found" in caplog.text) is not is_taken


@pytest.fixture
def little_memory() -> Iterator[None]:
    """This process gets 512 MiB more and then a MemoryError; the machine stays whole."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + (512 << 20), before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


@pytest.mark.parametrize(
    "platform",
    [
        *("", "linux_x86_64", "musllinux_1_2_x86_64", "manylinux_2_17_" + "x" * 50),
        *(
            "manylinux_2_99999999999999_x86_64",
            "manylinux_2_999_x86_64",
            "manylinux_2_\u0661\u0667_x86_64",
        ),
    ],
)
def test_a_platform_that_is_not_known(
    index: Path, platform: str, caplog: pytest.LogCaptureFixture, little_memory: None
) -> None:
    """Nothing is guessed, and a number of a node makes no list that fills the memory."""
    with caplog.at_level(logging.ERROR, "pyinfra"):
        assert not fetch(platform=platform)
    assert "the wheels that its Python accepts are unknown" in caplog.text


@pytest.mark.parametrize(
    ("keep", "python"),
    [
        *((CU12, each) for each in ("", "/../x", "3." + "9" * 5000)),
        *((each, "3.10.13") for each in ("--pre==1", "nvidia-nccl-cu12==1/../2")),
    ],
)
def test_words_of_a_node_that_are_none(
    index: Path, keep: str, python: str, caplog: pytest.LogCaptureFixture
) -> None:
    """They would go into a path of this machine, and into its pip's words."""
    with caplog.at_level(logging.ERROR, "pyinfra"):
        assert not fetch(keep, python=python)
    assert "no wheel for Python" in caplog.text
    assert not controller.cache().exists()


def test_what_no_index_has(index: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The line of pip's that says why, and that the node is as it was."""
    with caplog.at_level(logging.ERROR, "pyinfra"):
        assert not fetch("nvidia-nccl-cu12==2.99.9")
    (record,) = caplog.records
    printed = record.getMessage()
    assert (
        "the controller cannot get nvidia-nccl-cu12==2.99.9 for this node: ERROR: No m" in printed
    )
    assert printed.endswith("; nothing was changed")
    assert list(controller.cache().iterdir()) == []


@pytest.mark.parametrize("content", [b"", b"half a wheel", None])
def test_a_kept_wheel_that_is_damaged(index: Path, content: bytes | None) -> None:
    """What the cache holds is looked at in each run, and fetched again where it is not right."""
    assert fetch()
    whole = target().read_bytes()
    target().write_bytes(whole[: len(whole) // 2] if content is None else content)
    assert fetch()
    assert target().read_bytes() == whole


@pytest.mark.parametrize("content", [b"", b"half a wheel", None])
def test_a_copy_that_is_damaged(index: Path, node: Environment, content: bytes | None) -> None:
    """Nothing is removed for it, and it does not stay."""
    assert fetch()
    pushed = push()
    whole = pushed.read_bytes()
    damaged = bytes([whole[2000] ^ 1])
    pushed.write_bytes(whole[:2000] + damaged + whole[2001:] if content is None else content)
    without_index(node)
    before = node.library.read_bytes()
    done = repair(node, "dash", "nvidia-nccl-cu11", pushed=str(pushed))
    assert done.code == 1
    assert f"the copy of {CU12} is not whole: " in done.err and "nothing was changed" in done.err
    assert (node.library.read_bytes(), pushed.exists()) == (before, False)
    assert "nvidia-nccl-cu11" in node.distributions


def test_no_copy_at_all(node: Environment) -> None:
    """As after a user empties /var/tmp."""
    done = repair(node, "dash", pushed="/var/tmp/gpu-node-nowhere.whl")
    assert (done.code, "is not whole" in done.err) == (1, True)


def test_a_refusal_takes_the_copy_away(index: Path, node: Environment, shell: str) -> None:
    """Also where a job runs, which is seen before anything else."""
    assert fetch()
    pushed = push()
    code = f"import ctypes; ctypes.CDLL({str(node.library)!r}); print(1, flush=True); input()"
    pipe, words = subprocess.PIPE, [str(node.python), "-c", code]
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, text=True, start_new_session=True) as job:
        assert job.stdout is not None and job.stdout.readline() == "1\n"
        reported = command(node, "nvidia-nccl-cu11", allow="no", pushed=str(pushed))
        done = as_root([*SHELLS[shell], "-c", reported], check=False)
        job.kill()
    assert done.returncode == 1 and "in use by pid " in done.stderr
    assert not pushed.exists()


def test_no_python_takes_the_copy_away(index: Path, tmp_path: Path) -> None:
    """Where nothing can be done at all, nothing is left either."""
    assert fetch()
    pushed = push()
    assert repair(Environment(tmp_path), "dash", pushed=str(pushed)).code == 1
    assert not pushed.exists()


def test_what_killed_runs_left_goes_after_a_day(index: Path, node: Environment) -> None:
    """A copy of today may be another run's."""
    assert fetch()
    pushed, old, new = (push(name) for name in ("this", "old", "new"))
    os.utime(old, (0, 0))
    try:
        without_index(node)
        assert repair(node, "dash", "nvidia-nccl-cu11", pushed=str(pushed)).code == 0
        assert (old.exists(), new.exists()) == (False, True)
    finally:
        new.unlink()

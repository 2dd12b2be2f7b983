"""The job alone: what a rank reports of its node, and of the error that stopped it."""

from __future__ import annotations

import ast
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest

from gpu_node.verify import job
from gpu_node.verify.nodes import JOB
from tests.verify.job_scripts import nccl_library


def test_it_is_written_for_old_pythons() -> None:
    """CentOS 7 has 3.6."""
    ast.parse(JOB, feature_version=(3, 6))


@pytest.mark.parametrize(
    ("found", "version"),
    [((2, 18, 1), "2.18.1"), (2708, "2.7.8"), (21805, "2.18.5"), ((2, 29, 2, ""), "2.29.2")],
)
def test_nccls_version(found: object, version: str) -> None:
    """A number before PyTorch 1.10, then a tuple, which may end in a suffix."""
    torch = SimpleNamespace(cuda=SimpleNamespace(nccl=SimpleNamespace(version=lambda: found)))
    assert job.nccl_version(torch) == version


def test_nccls_version_is_that_of_the_loaded_library(tmp_path: Path) -> None:
    """Which may be another one than torch was built with, as by LD_LIBRARY_PATH."""
    made = nccl_library(tmp_path)
    code = "import types; from gpu_node.verify import job; torch = types.SimpleNamespace(); "
    code += "print(job.nccl_version(torch))"
    for preloaded, version in ((str(made), "2.19.3"), ("", "None")):
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "LD_PRELOAD": preloaded},
            capture_output=True,
            text=True,
        )
        assert done.stdout == f"{version}\n", done.stderr


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
def test_its_own_connections_alone(family: socket.AddressFamily) -> None:
    """Listening sockets, files and pipes do not count; IPv4 within IPv6 is IPv4."""
    both = family == socket.AF_INET6
    with socket.create_server(("", 0), family=family, dualstack_ipv6=both) as server:
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as client:
            other, _ = server.accept()
            with other:
                own = ["127.0.0.1", client.getsockname()[1], "127.0.0.1", port]
                found = job.connections()
                assert own in found and [*own[2:], *own[:2]] in found
                assert ["0.0.0.0", 0] not in [row[2:] for row in found]


@pytest.mark.parametrize(("spare", "least", "most"), [(1, 0, 0.2), (0, 0.5, 1.1)])
def test_the_speed_of_a_processor(
    monkeypatch: pytest.MonkeyPatch, spare: float, least: float, most: float
) -> None:
    """By seconds where processors are idle, as a throttled one is; else by its own time alone."""
    began = time.monotonic()
    monkeypatch.setattr(job, "idle", lambda: spare * (time.monotonic() - began))
    monkeypatch.setattr(job, "WORK_SECONDS", 0.05)

    def product(*_: object) -> None:
        end = time.process_time() + 0.005
        while time.process_time() < end:
            pass
        time.sleep(0.05)

    matrix = MagicMock()
    matrix.copy_ = product
    torch = MagicMock(mm=product, zeros_like=lambda _: matrix)
    found = job.worked(torch, SimpleNamespace(type="cpu"))
    assert least < found["product"] * 0.005 / (2 * job.SIDES[0] ** 3) < most
    assert least < found["memory"] * 0.005 / job.SIZES[0] < most


def test_the_interfaces_have_addresses() -> None:
    """The interfaces of this machine."""
    assert job.interfaces()["lo"] == "127.0.0.1"


def test_ncclconf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """NCCL_CONF_FILE has precedence over the user's file; the last line of a file counts."""
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".nccl.conf").write_text("NCCL_SOCKET_IFNAME=eno1\nNCCL_SOCKET_IFNAME=eno2\n")
    assert job.configured("NCCL_SOCKET_IFNAME") == "eno2"
    (tmp_path / "named").write_bytes(b"# \xff\nNCCL_SOCKET_IFNAME=bond0\n")
    monkeypatch.setenv("NCCL_CONF_FILE", str(tmp_path / "named"))
    assert job.configured("NCCL_SOCKET_IFNAME") == "bond0"
    assert job.configured("NCCL_IB_DISABLE") is None


def rank(folder: Path, seconds: int = 30, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run one rank with a Python that has no torch, or the folder's."""
    (folder / "job.py").write_text(JOB)
    given = ["reduce", "gloo", "1024", str(seconds), "a100-01", "29500"]
    return subprocess.run(
        [sys.executable, folder / "job.py", "--local_rank=0", *given],
        env={**os.environ, "NCCL_SOCKET_IFNAME": "bond0", **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def reported(folder: Path, number: int) -> list[dict[str, object]]:
    return [json.loads(line) for line in (folder / f"{number}.rank").read_text().splitlines()]


def test_a_rank_reports_what_stopped_it(tmp_path: Path) -> None:
    """What the node and the launcher give it, and the error in one line."""
    assert rank(tmp_path, RANK="3", WORLD_SIZE="4").returncode == 1
    started, failed = reported(tmp_path, 3)
    assert (started["stage"], started["ifname"], started["ifname_from"]) == (
        *("started", "bond0"),
        "environment",
    )
    assert failed["stage"] == "failed"
    assert failed["error"] == "ModuleNotFoundError: No module named 'torch'"


def test_a_rank_of_open_mpi(tmp_path: Path) -> None:
    """Open MPI gives the number in other variables."""
    rank(tmp_path, OMPI_COMM_WORLD_RANK="5")
    (started, *_) = reported(tmp_path, 5)
    assert started["rank"] == 5


def test_a_rank_that_hangs_ends(tmp_path: Path) -> None:
    """Also inside a library, where no Python code runs."""
    (tmp_path / "torch.py").write_text("import time\ntime.sleep(60)\n")
    assert rank(tmp_path, seconds=1, RANK="0").returncode == -signal.SIGALRM
    assert [line["stage"] for line in reported(tmp_path, 0)] == ["started"]

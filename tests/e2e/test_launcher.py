"""What the real launchers start: DeepSpeed's by pdsh and torchrun, on two unlike nodes."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lab import nodes, roster
from lab.launcher import layer
from tests.e2e.conftest import WriteInventory
from tests.e2e.running import MANAGED, assert_at_rest, converge, on, run

pytestmark = pytest.mark.lab

JOBS = Path(__file__).parent / "jobs"
LAUNCHING = roster.NODES["a100-01"]
# What a job of two nodes listens on.
PORT = 29511
SECONDS = 120


@pytest.fixture(scope="module")
def launchers() -> Iterator[None]:
    """Both nodes as found, with the launchers installed and the jobs in one place."""
    nodes.reset(MANAGED)
    layer.give(MANAGED)
    for node in MANAGED:
        for job in JOBS.glob("*.py"):
            on(node, f"mkdir -p /data/job && cat >/data/job/{job.name} <<'E'\n{job.read_text()}E\n")
    yield
    nodes.reset(MANAGED)


@pytest.fixture
def deepspeed(inventory: WriteInventory, launchers: None) -> str:
    """The lab's inventory, of whose nodes DeepSpeed's launcher starts the jobs, converged."""
    path = inventory({node: {"launcher_kind": "deepspeed"} for node in MANAGED})
    done = converge(path)
    assert done.code == 0, done.err
    return path


def ssh(node: roster.Node, command: str) -> subprocess.CompletedProcess[str]:
    """Run a command as a user at a terminal elsewhere does."""
    options = ["BatchMode=yes", "IdentitiesOnly=yes", f"UserKnownHostsFile={roster.KNOWN_HOSTS}"]
    words = [word for option in options for word in ("-o", option)]
    return subprocess.run(
        [
            "ssh",
            "-F",
            "none",
            "-i",
            str(roster.CLIENT_KEY),
            *words,
            f"root@{node.address}",
            command,
        ],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


def words(output: str, first: str) -> list[list[str]]:
    """What ranks say after a word; pdsh and torchrun put their own before it."""
    said = re.findall(rf"(?:^|[:\]] ?){first} (.+)$", output, re.MULTILINE)
    return sorted(line.split() for line in said)


def test_deepspeed_gives_each_node_its_own_interface(deepspeed: str) -> None:
    """Two ranks a node, each with its node's interface, and everywhere the wanted limits."""
    hostfile = run("gpu-node", "hostfile", deepspeed)
    assert (hostfile.code, hostfile.out) == (0, "a100-01 slots=2\nv100-01 slots=2\n"), hostfile.err
    on(LAUNCHING.name, f"printf '%s' '{hostfile.out}' >/data/job/hostfile")
    launched = ssh(
        LAUNCHING,
        "cd /data/job && DS_ACCELERATOR=cuda deepspeed --hostfile hostfile "
        f"--master_addr {LAUNCHING.address} --master_port {PORT} whoami.py",
    )
    assert launched.returncode == 0, launched.stderr
    wanted = ["16384", str(8 << 30)]
    assert words(launched.stdout, "rank") == [
        ["0", "a100-01", "nccl.conf:=bond0", *wanted],
        ["1", "a100-01", "nccl.conf:=bond0", *wanted],
        ["2", "v100-01", "nccl.conf:=eno1", *wanted],
        ["3", "v100-01", "nccl.conf:=eno1", *wanted],
    ]
    assert_at_rest(deepspeed, "v100-01")


def test_torchrun_all_reduces(deepspeed: str) -> None:
    """Gloo takes the address that a node's own name has: 1 + 2 on both."""

    def start(rank: int, node: str) -> subprocess.CompletedProcess[str]:
        return ssh(
            roster.NODES[node],
            f"cd /data/job && python3 -m torch.distributed.run --nnodes 2 --node_rank {rank} "
            f"--nproc_per_node 1 --master_addr {LAUNCHING.name} --master_port {PORT} "
            # torch 1.13 on Python 3.11 cannot read its own default of these, 0.
            "--redirects 1 --tee 1 all_reduce.py",
        )

    with ThreadPoolExecutor() as beside:
        ended = list(beside.map(start, range(2), MANAGED))
    assert [done.returncode for done in ended] == [0, 0], ended
    assert words("".join(done.stdout for done in ended), "sum") == [
        ["a100-01", "3"],
        ["v100-01", "3"],
    ]

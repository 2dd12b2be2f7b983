"""Jobs of the real launchers: DeepSpeed's by pdsh, and torchrun, on two different nodes.

And `gpu-node verify`, which starts its own job by them, and leaves nothing behind however it ends.
"""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gpu_node.lab import nodes, roster
from gpu_node.lab.launcher import layer
from tests.e2e.conftest import CONVERGED, Overrides, WriteInventory, write_inventory
from tests.e2e.on_lab import BIN, MANAGED, REPOSITORY, Run, assert_at_rest, converge, on, run
from tests.node_scripts import until

pytestmark = pytest.mark.lab

JOBS = Path(__file__).parent / "jobs"
LAUNCHING = roster.NODES["a100-01"]
# What a job of two nodes listens on.
PORT = 29511
SECONDS = 300


@pytest.fixture(scope="module")
def launchers(converged_once: None) -> None:
    """Both nodes as converged, with the launchers installed and the jobs in one place."""
    nodes.put_back(MANAGED, CONVERGED)
    layer.give(MANAGED)
    for node in MANAGED:
        for job in JOBS.glob("*.py"):
            on(node, f"mkdir -p /data/job && cat >/data/job/{job.name} <<'E'\n{job.read_text()}E\n")


@pytest.fixture(scope="module")
def deepspeed(launchers: None, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The lab's inventory with `launcher: deepspeed`, converged."""
    wanted: dict[str, Overrides] = {node: {"launcher_kind": "deepspeed"} for node in MANAGED}
    path = write_inventory(tmp_path_factory.mktemp("deepspeed"), wanted)
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
    """Return what ranks print after a word; pdsh and torchrun put prefixes before it."""
    lines = re.findall(rf"(?:^|[:\]] ?){first} (.+)$", output, re.MULTILINE)
    return sorted(line.split() for line in lines)


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
    """Gloo uses the address of a node's own name: 1 + 2 on both."""

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


PYTHON = "/usr/bin/python3"
# A Python of which PyTorch's launcher never begins.
HANGS = "/usr/local/bin/python-hangs"
# Folders of verifications, NCCL's segments, and the folders and words of all processes.
FOUND = """
ls -d /tmp/gpu-node-verify-* /dev/shm/nccl-* 2>/dev/null
for each in /proc/[0-9]*; do readlink "$each/cwd"; done
"""
OF_A_JOB = ("verify-", "nccl-", "python-hangs", "sleep 600")


def left(node: str) -> list[str]:
    """Return the files and processes of a verification's job on a node."""
    # Not in the shell that asks, whose own words would be found.
    lines = on(node, "ps axo args").splitlines() + on(node, f"{FOUND}true").splitlines()
    return [line for line in lines if any(word in line for word in OF_A_JOB)]


@pytest.fixture
def verifying(deepspeed: str, inventory: WriteInventory) -> Iterator[WriteInventory]:
    """Return what writes inventories of the converged nodes; nothing may be left on them."""
    yield inventory
    assert {node: left(node) for node in MANAGED} == {node: [] for node in MANAGED}


def launched_by(kind: str, **python: str) -> dict[str, Overrides]:
    """The launcher of both nodes, and another Python than Debian's for one, by a100 or v100."""
    return {
        node: {"launcher_kind": kind, "launcher_python": python.get(node[:4], PYTHON)}
        for node in MANAGED
    }


def verify(path: str, *words: str) -> Run:
    """Without GPUs for PyTorch, as the lab's are emulated."""
    return run("gpu-node", "verify", path, "--backend", "gloo", "--size", "4M", *words)


@pytest.mark.parametrize(
    "kind", ["torchrun", pytest.param("deepspeed", marks=pytest.mark.lab_slow)]
)
def test_verify_starts_a_job_as_the_launcher_does(verifying: WriteInventory, kind: str) -> None:
    """A rank on each node, by its own interface, with the limits that a login has."""
    done = verify(verifying(launched_by(kind)))
    assert done.code == 0, done
    rows = {line[:18].strip(): line[18:].split() for line in done.out.splitlines()}
    assert rows["ranks"] == ["0", "1"]
    assert rows["data went by"] == [
        *("bond0", LAUNCHING.address),
        *("eno1", roster.NODES["v100-01"].address),
    ]
    assert rows["NCCL_SOCKET_IFNAME"] == ["=bond0", "(nccl.conf)", "=eno1", "(nccl.conf)"]
    assert (rows["open files"], rows["/dev/shm"]) == (["16384"] * 2, ["8G"] * 2)
    assert f"{kind}, 2 ranks on 2 nodes, gloo: " in done.out
    assert done.out.endswith("verified: every rank computed the right sums\n")
    assert done.err == ""


def test_verify_wants_the_gpus(verifying: WriteInventory) -> None:
    """They are in the inventory: a PyTorch that sees none must not pass on the CPUs."""
    done = run("gpu-node", "verify", verifying(launched_by("torchrun")), "--limit", "v100-01")
    assert (done.code, "sees no GPUs" in done.out) == (1, True), done


def flat(done: Run) -> str:
    """Return the output, without the line breaks of a narrow terminal."""
    return " ".join(done.out.split())


@pytest.fixture
def hangs(verifying: WriteInventory) -> str:
    """An inventory: on one node PyTorch's launcher never begins."""
    script = f'#!/bin/sh\ncase $2 in torch*) sleep 600 & sleep 600 ;; esac\nexec {PYTHON} "$@"\n'
    on("v100-01", f"printf '%s' '{script}' >{HANGS}; chmod 755 {HANGS}")
    return verifying(launched_by("torchrun", v100=HANGS))


@pytest.mark.lab_slow
def test_verify_ends_a_job_that_hangs(hangs: str) -> None:
    """Within the time limit, with the ranks that waited."""
    done = verify(hangs, "--timeout", "15")
    assert done.code == 1
    assert re.search(r"v100-01: no rank started: torchrun did not end within 1[0-5] s", flat(done))


def test_ctrl_c_ends_the_job_on_the_nodes(hangs: str) -> None:
    """Before the command ends."""
    words = [str(BIN / "gpu-node"), "verify", hangs, "--backend", "gloo"]
    with subprocess.Popen(words, cwd=REPOSITORY, stderr=subprocess.PIPE, text=True) as process:
        # A loaded machine takes longer than one round to get there.
        assert any(until(lambda: "sleep 600" in on("v100-01", "ps axo args")) for _ in range(3))
        process.send_signal(signal.SIGINT)
        _, output = process.communicate(timeout=SECONDS)
    assert (process.returncode, output) == (1, "gpu-node: interrupted\n")

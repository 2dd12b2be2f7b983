"""`gpu-node check-job` on two nodes: jobs that fail, each for another reason, and a sound one.

Nothing of a job is started: what it would do is known from the notes and the launchers' sources.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from gpu_node.lab import nodes
from tests.commands import BIN, REPOSITORY, SECONDS, environment
from tests.e2e.conftest import CONVERGED
from tests.e2e.on_lab import INVENTORY, MANAGED, on, run

pytestmark = pytest.mark.lab

FOLDER = "/data/job"
PORT, TAKEN = 29541, 29542
# An environment whose torch is seen by its folders alone, and the launchers in it.
ENVIRONMENT = """
bin=/opt/job/bin site=/opt/job/lib/python3.10/site-packages
mkdir -p $bin $site/torch-VERSION.dist-info $site/deepspeed-0.14.0.dist-info /data/job
ln -sf "$(command -v python3)" $bin/python
for name in torchrun deepspeed; do printf '#!/opt/job/bin/python\\n' >$bin/$name; done
chmod +x $bin/*
cd /data/job && touch train.py
printf 'a100-01 slots=2\\nv100-01 slots=2\\n' >hostfile
echo '{"fp16": {"enabled": true}, "train_batch_size": 8}' >ds.json
"""
TORCHRUN = f"/opt/job/bin/torchrun --nnodes 2 --nproc_per_node 2 --master_port {PORT}"
TO = f"{TORCHRUN} --master_addr 10.168.144.4"
ONE = "/opt/job/bin/deepspeed --num_gpus 2"
# The line of a job, and the finding that names why it would fail: node, rule, subject.
FAILING: Mapping[str, tuple[str, tuple[str, str, str]]] = {
    "a script on one node alone": (f"{TO} other.py", ("v100-01", "job.path", "other.py")),
    "no room for a checkpoint": (
        f"{TO} train.py --output_dir /mnt/small",
        ("v100-01", "job.space", "/mnt/small"),
    ),
    "a port that is taken": (
        f"{TO} train.py".replace(str(PORT), str(TAKEN)),
        ("a100-01", "job.master", f"port {TAKEN}"),
    ),
    "another torch": (
        f"{TO} train.py".replace("/opt/job", "/opt/other"),
        ("v100-01", "job.program", "/opt/other/bin/python"),
    ),
}


@pytest.fixture(scope="module", autouse=True)
def jobs(converged_once: None) -> Iterator[None]:
    """Both nodes as converged, with an environment and the files of the jobs."""
    nodes.put_back(MANAGED, CONVERGED)
    for node, other in (("a100-01", "2.1.2"), ("v100-01", "2.0.1")):
        on(node, ENVIRONMENT.replace("VERSION", "2.1.2"))
        on(node, ENVIRONMENT.replace("VERSION", other).replace("/opt/job", "/opt/other"))
    on("a100-01", f"touch {FOLDER}/other.py")
    on("v100-01", "mkdir -p /mnt/small && mount -t tmpfs -o size=1m tmpfs /mnt/small")
    server = f"python3 -m http.server {TAKEN} --directory /var/empty"
    on("a100-01", f"mkdir -p /var/empty; setsid {server} >/dev/null 2>&1 </dev/null & sleep 1")
    yield
    nodes.put_back(MANAGED, CONVERGED)


def found(line: str, code: int = 2) -> list[tuple[str, str, str]]:
    """Return what stops a job: node, rule and subject of each finding."""
    given = ["--dir", FOLDER, "--format", "json"]
    done = run("gpu-node", "check-job", INVENTORY, *given, "--", *line.split())
    assert done.code == code, done.err or done.out
    report: dict[str, Any] = json.loads(done.out)
    return [
        (node, each["rule"], each["subject"])
        for node, host in report["hosts"].items()
        for each in host["findings"]
    ]


@pytest.mark.parametrize("name", FAILING)
def test_a_job_that_would_fail(name: str) -> None:
    """Its reason is named before it starts, and no other rule of another reason."""
    line, finding = FAILING[name]
    named = found(line)
    assert finding in named
    assert {rule for _, rule, _ in named} == {finding[1]}


def test_a_sound_job() -> None:
    """Nothing stops it."""
    assert found(f"{TO} train.py --output_dir /data/out", code=0) == []
    assert found(f"{ONE} train.py --deepspeed ds.json", code=0) == []


def test_a_script(tmp_path: Path) -> None:
    """It asks itself, before its launcher; this machine's variables are not those of the node."""
    line = f"${{CHECK:-}} env NCCL_SOCKET_IFNAME=bond0 {TO} train.py".replace("node 2", "node $N")
    script = tmp_path / "train.sh"
    script.write_text(f"export NCCL_DEBUG=INFO\nN=8\n{line}\n${{CHECK:+exit}}\ntouch started\n")
    check = f"{BIN}/gpu-node check-job {REPOSITORY / INVENTORY} --dir {FOLDER} --"
    done = subprocess.run(
        ["bash", script],
        cwd=tmp_path,
        env={**environment(), "CHECK": check},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 2, done
    assert "2 problems will stop it" in done.stdout
    assert "job.slots" in done.stdout and "job.variable" in done.stdout
    assert "unknown, not judged: NCCL_DEBUG of this shell" in done.stdout
    assert not (tmp_path / "started").exists()


def test_the_field_notes_own_line() -> None:
    """XuanYuan-6B on nodes as they were found: bf16 on the V100, bond0 on both, misspelt names."""
    nodes.reset(MANAGED)
    for node in MANAGED:
        on(node, ENVIRONMENT.replace("VERSION", "2.1.2"))
        config = {
            "bf16": {"enabled": True},
            "zero_optimization": {"stage": 3},
            "train_micro_batch_size_per_gpu": 1,
        }
        on(node, f"echo '{json.dumps(config)}' >{FOLDER}/ds.json")
    line = (
        "NCCL_SOCKET_IFNAME=bond0 NCCL_IB_DISABL=1 /opt/job/bin/deepspeed --hostfile=hostfile "
        f"--master_port {PORT} train.py --deepspeed ds.json --num_train_epochs 3"
    )
    words = ["--parameters", "7e9", "--dir", FOLDER, "--", *line.split()]
    done = run("gpu-node", "check-job", INVENTORY, "--format", "json", *words)
    hosts = json.loads(done.out)["hosts"]
    rules = {(node, each["rule"]) for node, host in hosts.items() for each in host["findings"]}
    assert rules >= {
        ("v100-01", "toolchain.precision"),
        ("v100-01", "host.memory-for-job"),
        ("v100-01", "job.variable"),
        ("a100-01", "job.variable"),
        ("v100-01", "shm.too-small"),
        ("a100-01", "nccl.duplicate-wheels"),
    }
    assert done.code in (1, 2)

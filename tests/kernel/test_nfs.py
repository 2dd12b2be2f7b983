"""A home on NFS whose server keeps root out: it is read and written as its owner."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from gpu_node.facts.areas import AREAS
from gpu_node.lab.kernel import saved
from gpu_node.lab.kernel.machine import Machine
from tests.e2e.on_lab import Converge, converge, drift

pytestmark = pytest.mark.kernel_slow
STATE = saved.BOOTED
USERS = "# mine\\nexport OMP_NUM_THREADS=2\\n"
# The machine is its own server. Without a short grace period no file can be opened for 90 s.
EXPORT = f"""
set -e
useradd --uid 2001 --no-create-home --home-dir /nfs/train --shell /bin/bash train
mkdir -p /srv/homes/train /nfs
printf '{USERS}' >/srv/homes/train/.bashrc
chown -R train: /srv/homes/train
chmod 700 /srv/homes/train
chmod 600 /srv/homes/train/.bashrc
modprobe nfsd
mount -t nfsd nfsd /proc/fs/nfsd
echo '/srv/homes 127.0.0.1(rw,root_squash,no_subtree_check,fsid=0)' >/etc/exports
exportfs -r
rpc.mountd --no-nfs-version 3
rpc.nfsd --no-nfs-version 3 --grace-time 10 --lease-time 10 1
mount -t nfs4 127.0.0.1:/ /nfs
"""


@pytest.fixture(scope="module")
def site(machine: Machine, inventory: str) -> str:
    """The inventory of the machine's training user alone, who is at home on NFS."""
    machine.read(EXPORT)
    file = Path(inventory).with_suffix(".yml")
    cluster = yaml.safe_load(file.read_text())
    ssh = cluster["defaults"]["ssh"]
    settings = {"launcher": {"kind": "torchrun", "user": "train"}, "env": {"OMP_NUM_THREADS": "4"}}
    # Of its driver, which has no module here, nothing is wanted.
    checks = {area: False for area in AREAS if area not in ("env", "ssh")}
    cluster["defaults"] = {"ssh": ssh, **settings, "checks": checks}
    file.write_text(yaml.safe_dump(cluster))
    return inventory


def as_train(machine: Machine, script: str) -> str:
    """Return a script's output as the user who owns the home."""
    return machine.read(f"su -s /bin/sh train -c '{script}'")


def test_root_is_kept_out(machine: Machine, site: str) -> None:
    """The control: root is refused there."""
    assert machine.run("cat /nfs/train/.bashrc").returncode != 0
    assert "Permission denied" in machine.run("ls /nfs/train").stderr


def test_the_report_reads_the_home(site: str) -> None:
    """What the user's line sets is found; nothing is unreadable."""
    (host,) = drift(site).json["hosts"].values()
    found = {each["rule"]: each["found"] for each in host["findings"]}
    assert found == {"env.not-set": "'2' (~/.bashrc:2)"}


def test_the_deploy_writes_as_the_owner(machine: Machine, site: str) -> None:
    """The user's bytes stay, a backup is kept, and the variable comes from the node's own file."""
    done: Converge = converge(site)
    assert (done.code, done.failed) == (0, []), done.err
    text = as_train(machine, "cat /nfs/train/.bashrc")
    assert text.count("/etc/gpu-node/env.sh ] || . /etc/gpu-node/env.sh") == 2
    assert "# mine\nexport OMP_NUM_THREADS=2" in text
    assert as_train(machine, "stat -c %U:%a /nfs/train/.bashrc").strip() == "train:600"
    kept = machine.read("cat /var/backups/gpu-node/*/nfs/train/.bashrc")
    assert kept.strip() == "# mine\nexport OMP_NUM_THREADS=2"
    assert "export OMP_NUM_THREADS='4'" in machine.read("cat /etc/gpu-node/env.sh")


def test_nothing_is_left_to_do(site: str) -> None:
    report = drift(site)
    assert report.code == 0, report.out
    again = converge(site)
    assert (again.code, again.executed) == (0, {})

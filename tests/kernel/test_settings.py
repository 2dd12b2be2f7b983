"""Settings and modules of a real kernel, and a service of a real systemd: set, and taken back."""

from __future__ import annotations

import json

import pytest

from gpu_node.lab.kernel import saved
from gpu_node.lab.kernel.machine import Machine
from tests.e2e.on_lab import run
from tests.kernel import products

pytestmark = pytest.mark.kernel
STATE = saved.BOOTED
WANTED = {
    "sysctl": {"vm.max_map_count": 262144, "net.core.somaxconn": 5000},
    "modprobe": {"nfsd": True},
    "services": {"idle": "enabled"},
}
DATA = [word for key, value in WANTED.items() for word in ("--data", f"{key}={json.dumps(value)}")]
UNIT = """
cat >/etc/systemd/system/idle.service <<'END'
[Service]
ExecStart=/bin/sleep infinity
[Install]
WantedBy=multi-user.target
END
systemctl daemon-reload"""
FILES = "/etc/sysctl.d/zz-gpu-node.conf /etc/modules-load.d/gpu-node.conf"
STATE_NOW = f"""
cat /proc/sys/vm/max_map_count /proc/sys/net/core/somaxconn
systemctl is-enabled idle
systemctl is-active idle
ls {FILES} 2>/dev/null
:"""


def test_a_machine(machine: Machine, inventory: str) -> None:
    """All are set, now and for a boot; a second run does nothing; a restore takes them back."""
    machine.read(UNIT)
    before = machine.read(STATE_NOW)
    assert before.split()[2:] == ["disabled", "inactive"]
    done = products.deploy(inventory, "--data", "areas=host", *DATA)
    assert done.code == 0, done.err
    after = machine.read(STATE_NOW).split()
    assert after[:4] == ["262144", "5000", "enabled", "active"] and len(after) == 6
    assert machine.run("[ -d /sys/module/nfsd ]").returncode == 0
    inodes = machine.read(f"stat -c %i {FILES}")
    assert products.deploy(inventory, "--data", "areas=host", *DATA).code == 0
    assert machine.read(f"stat -c %i {FILES}") == inodes
    back = run("gpu-node", "restore", inventory, machine.name, "-y")
    assert back.code == 0, back.err
    assert machine.read(STATE_NOW) == before
    assert machine.run("[ -d /sys/module/nfsd ]").returncode == 0


def test_a_value_that_the_kernel_refuses(machine: Machine, inventory: str) -> None:
    """The run fails with its reason, and the file is not there: it would fail at each boot."""
    wanted = json.dumps({"net.ipv4.ip_default_ttl": 99999})
    done = products.deploy(inventory, "--data", "areas=host", "--data", f"sysctl={wanted}")
    assert done.code == 1
    assert "net.ipv4.ip_default_ttl: is not 99999" in done.err
    assert machine.run("[ -e /etc/sysctl.d/zz-gpu-node.conf ]").returncode == 1

"""Interface and environment, from the launcher's side: what `ssh node env` has, and what stays."""

from __future__ import annotations

import base64
import subprocess
from pathlib import Path

import pytest
import yaml

from gpu_node.lab import nodes, roster
from tests.e2e.conftest import CONVERGED, WriteInventory
from tests.e2e.on_lab import MANAGED, changed, content, converge, drift, dry, manifest, on

pytestmark = pytest.mark.lab

IFNAME = "NCCL_SOCKET_IFNAME"
RETURN = b"case $- in\n    *i*) ;;\n      *) return;;\nesac\n"
# What a user has: lines of either kind of ending, bytes of an old encoding, no newline at the end.
HARD = (
    b"# ~/.bashrc of zhang \xd6\xd0\xce\xc4\r\n"
    + RETURN
    + b"".join(b"alias a%d='ls -l'\n# %d: copied from Windows\r\n" % (n, n) for n in range(98))
    + b"export NCCL_SOCKET_IFNAME=eno9"
)


@pytest.fixture
def put_back(converged_once: None) -> None:
    """Both nodes are as converged, whatever a test before did to them."""
    nodes.put_back(MANAGED, CONVERGED)


def over_ssh(node: str, command: str) -> str:
    """What a command prints that is started by ssh, as launchers do."""
    options = [f"UserKnownHostsFile={roster.KNOWN_HOSTS}", "IdentitiesOnly=yes", "BatchMode=yes"]
    given = [word for option in options for word in ("-o", option)]
    address = f"root@{roster.NODES[node].address}"
    done = subprocess.run(
        ["ssh", "-F", "none", "-i", str(roster.CLIENT_KEY), *given, address, command],
        capture_output=True,
        text=True,
        timeout=20,
        check=True,
    )
    return done.stdout


def variables(node: str) -> dict[str, str]:
    """The environment of a command that is started by ssh."""
    lines = over_ssh(node, "env").splitlines()
    return {name: value for name, _, value in (line.partition("=") for line in lines)}


def write(node: str, path: str, content: bytes) -> None:
    """Write a file on a node, byte for byte."""
    coded = base64.b64encode(content).decode()
    on(node, f"echo {coded} | base64 -d >{path}")


def findings(node: str, *options: str) -> set[tuple[str, str, bool]]:
    """Rule, subject and fixable of a node's findings."""
    host = drift(*options).json["hosts"][node]
    return {(each["rule"], each["subject"], each["fixable"]) for each in host["findings"]}


def test_the_other_servers_interface_is_cured(put_back: None) -> None:
    """The copied line is still there, ours decides, and each node has its own."""
    assert b"\nexport NCCL_SOCKET_IFNAME=bond0\n" in content("v100-01", "/root/.bashrc")
    for node in MANAGED:
        wanted = f"={roster.NODES[node].interface}"
        assert variables(node)[IFNAME] == wanted
        assert on(node, f"bash -ic 'echo ${IFNAME}' 2>/dev/null").strip() == wanted
        assert f"{IFNAME}={wanted}" in on(node, "cat /etc/nccl.conf").splitlines()


def test_a_users_bashrc_stays_byte_for_byte(put_back: None) -> None:
    """Only our blocks change; every kind of shell reads them; after the removal nothing remains."""
    write("a100-01", "/root/.bashrc", HARD)
    plan, result = dry(), converge()
    assert (result.code, result.executed) == (0, plan)
    after = content("a100-01", "/root/.bashrc")
    head, own, tail = after.partition(HARD)
    assert own == HARD
    assert head.startswith(b"# >>> gpu-node") and head.endswith(b"\n# <<< gpu-node\n")
    assert tail.startswith(b"\n# >>> gpu-node") and tail.endswith(b"\n# <<< gpu-node\n")
    on("a100-01", "bash -n /root/.bashrc")
    assert variables("a100-01")[IFNAME] == "=bond0"
    assert variables("a100-01")["OMP_NUM_THREADS"] == "4"
    assert on("a100-01", f"bash -ic 'echo ${IFNAME}' 2>/dev/null").strip() == "=bond0"
    before = manifest("a100-01")
    second = converge()
    assert (second.code, second.executed) == (0, {})
    assert changed(before, manifest("a100-01")) == set()


@pytest.mark.lab_slow
def test_a_trainer_of_before_is_named(put_back: None) -> None:
    """By its pid, and only while it runs."""
    started = f"RANK=0 {IFNAME}=bond0 nohup python3 -c 'import time; time.sleep(60)'"
    pid = on("v100-01", f"{started} >/dev/null 2>&1 & echo $!").strip()
    assert findings("v100-01") == {("env.stale-process", f"pid {pid} (python3)", False)}
    on("v100-01", f"kill {pid}")
    assert findings("v100-01") == set()


@pytest.mark.lab_slow
def test_what_leaves_the_inventory_leaves_the_block(
    put_back: None, inventory: WriteInventory
) -> None:
    """Another variable in the place of the first, then none: the users' files are as they were."""
    path = inventory({})
    file = Path(path).with_suffix(".yml")
    cluster = yaml.safe_load(file.read_text())
    cluster["defaults"]["env"] = {"HF_HOME": "/data/it's 2"}
    file.write_text(yaml.safe_dump(cluster))
    assert converge(path).code == 0
    assert variables("v100-01")["HF_HOME"] == "/data/it's 2"
    assert "OMP_NUM_THREADS" not in variables("v100-01")
    cluster["defaults"]["env"] = {}
    del cluster["defaults"]["network"]
    # What the user's own line had is wrong again, and no deploy repairs what is not named.
    cluster["defaults"]["checks"] = {"network.ifname-wrong": False}
    file.write_text(yaml.safe_dump(cluster))
    assert converge(path).code == 0
    assert content("v100-01", "/root/.bashrc").endswith(b"\nexport NCCL_SOCKET_IFNAME=bond0")
    assert b"gpu-node" not in content("v100-01", "/root/.bashrc")

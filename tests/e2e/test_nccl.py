"""NCCL wheels that collide on a node: named with the reason, repaired, then unchanged."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpu_node.lab import disks, nodes, roster, wheels
from gpu_node.lab.machine import as_root
from tests.e2e.conftest import WriteInventory, nccl_alone
from tests.e2e.on_lab import assert_at_rest, converge, drift, on

pytestmark = pytest.mark.lab

# Used by these tests alone, so that they run beside those of the two other nodes.
NODE = "v100-02"
KEPT = "nccl"
ENVIRONMENT = "/opt/envs/dis"
SETTINGS: dict[str, object] = {"environments": [ENVIRONMENT], "version": "match-torch"}
PIP = f"{ENVIRONMENT}/bin/python -m pip"
CU11, CU12 = "nvidia-nccl-cu11==2.14.3", "nvidia-nccl-cu12==2.18.1"


@pytest.fixture(scope="module")
def wheelhouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheels, made once."""
    folder = tmp_path_factory.mktemp("wheels")
    wheels.nccl_wheel(folder, "nvidia-nccl-cu11", "2.14.3")
    wheels.nccl_wheel(folder, "nvidia-nccl-cu12", "2.18.1")
    wheels.torch_wheel(folder)
    return folder


@pytest.fixture(scope="module")
def kept(wheelhouse: Path) -> None:
    """The node is converged and has a Python environment with torch, whose pip finds the wheels."""
    nodes.reset([NODE])
    key = roster.CLIENT_KEY.with_suffix(".pub").read_text().strip()
    on(NODE, f"mkdir -p /root/.ssh && echo '{key}' >/root/.ssh/authorized_keys")
    as_root(["cp", "-r", wheelhouse, disks.root(NODE) / "root" / "wheels"])
    on(NODE, f"python3 -m venv --without-pip --system-site-packages {ENVIRONMENT}")
    lines = "[global]\\nno-index = true\\nfind-links = /root/wheels\\n"
    on(NODE, f"printf '{lines}' >{ENVIRONMENT}/pip.conf")
    on(NODE, f"{PIP} install -q --no-deps torch 2>&1")
    on(NODE, "dpkg -r libnccl2")
    disks.keep(NODE, KEPT)


@pytest.fixture
def path(kept: None, inventory: WriteInventory) -> str:
    """The node as it was kept, and an inventory that manages only its NCCL."""
    nodes.put_back([NODE], KEPT)
    return nccl_alone(inventory({}), NODE, **SETTINGS)


def _torch_has() -> str:
    return on(NODE, f"{ENVIRONMENT}/bin/python -c 'import torch; print(torch.nccl)'").strip()


@pytest.mark.parametrize(
    "order",
    [
        pytest.param((CU12, CU11), id="wrong-last"),
        pytest.param((CU11, CU12), id="right-last", marks=pytest.mark.lab_slow),
    ],
)
def test_both_orders(path: str, order: tuple[str, str]) -> None:
    """It is reported with the message that a user sees, repaired, proved, and then unchanged."""
    for wheel in order:
        on(NODE, f"{PIP} install -q --no-deps {wheel} 2>&1")
    report = drift(path)
    assert report.code == 2
    host = report.json["hosts"][NODE]
    found = {each["rule"]: each for each in host["findings"]}
    assert "-2147483648" in found["nccl.duplicate-wheels"]["cause"]
    assert ("nccl.loaded-mismatch" in found) == (order[1] == CU11)
    loads = host["facts"]["nccl"]["environments"][ENVIRONMENT]["loads"]
    assert loads["reason"] == "DT_RPATH" and loads["path"].endswith("nvidia/nccl/lib/libnccl.so.2")
    done = converge(path)
    assert done.code == 0, done.err
    assert _torch_has() == "21801"
    assert on(NODE, f"{PIP} list 2>/dev/null | grep -c nvidia-nccl") == "1\n"
    assert_at_rest(path, NODE)


@pytest.mark.lab_slow
def test_after_a_common_wrong_repair(path: str) -> None:
    """pip uninstall has deleted the shared file, and pip is content: the file comes back."""
    on(NODE, f"{PIP} install -q --no-deps {CU12} 2>&1; {PIP} install -q --no-deps {CU11} 2>&1")
    on(NODE, f"{PIP} uninstall -q -y nvidia-nccl-cu11 2>&1")
    assert "No broken requirements" in on(NODE, f"{PIP} check")
    rules = {each["rule"] for each in drift(path).json["hosts"][NODE]["findings"]}
    assert {"nccl.wheel-damaged", "nccl.loaded-mismatch"} <= rules
    assert converge(path).code == 0
    assert _torch_has() == "21801"


def test_a_running_job_is_not_harmed(path: str) -> None:
    """While a process has a libnccl mapped the step is refused, by pid; data may allow it."""
    on(NODE, f"{PIP} install -q --no-deps {CU12} 2>&1; {PIP} install -q --no-deps {CU11} 2>&1")
    job = f"{ENVIRONMENT}/bin/python -c 'import torch, time; time.sleep(300)'"
    on(NODE, f"nohup {job} >/dev/null 2>&1 & for i in 1 2 3 4 5 6 7 8 9 10; do sleep 0.3; "
       "grep -qs libnccl /proc/$!/maps && break; done")  # fmt: skip
    refused = converge(path)
    assert refused.code == 1
    assert "in use by pid " in refused.err and "time.sleep(300)" in refused.err
    assert _torch_has() == "21403"
    allowed = converge(path, "--data", "allow_disruption=true")
    assert allowed.code == 0, allowed.err
    assert _torch_has() == "21801"

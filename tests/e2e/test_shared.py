"""One directory is the home of both nodes, with the Python environment that both use."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gpu_node.lab import nodes, sharing
from tests.e2e.conftest import CONVERGED
from tests.e2e.on_lab import INVENTORY, MANAGED, converge, drift, on

pytestmark = pytest.mark.lab_slow
HOME, ENVIRONMENT = "/root", "/root/miniconda3/envs/dis"
LIBRARY = f"{ENVIRONMENT}/lib/python3*/site-packages/nvidia/nccl/lib/libnccl.so.2"
# Every file that a run may write, read by cksum on a node.
FILES = "cd /root && find .bashrc .ssh miniconda3 -type f ! -name '*.pyc' -exec cksum {} + | sort"
JOB = 'nohup sh -c "exec 7</dev/nvidia0; exec sleep 173" >/dev/null 2>&1 & echo $!'


@pytest.fixture(scope="module", autouse=True)
def one_home(converged_once: None) -> Iterator[None]:
    """The home of the first node is that of both."""
    nodes.put_back(MANAGED, CONVERGED)
    sharing.mount(MANAGED, HOME)
    yield
    nodes.put_back(MANAGED, CONVERGED)


def test_two_runs_write_one_home_alike() -> None:
    """The first node repairs it, the second changes nothing, and each keeps its own values."""
    assert drift().code == 2
    first = converge()
    assert (first.code, first.failed) == (0, []), first.err
    assert first.executed["Environment | Write ~/.bashrc"] == ["a100-01"]
    before = [on(node, FILES) for node in MANAGED]
    assert before[0] == before[1]
    second = converge()
    assert (second.code, second.executed) == (0, {}), second.err
    assert [on(node, FILES) for node in MANAGED] == before
    report = drift()
    assert report.code == 0, report.out
    named = {node: on(node, "grep IFNAME /etc/nccl.conf").strip() for node in MANAGED}
    assert named == {"a100-01": "NCCL_SOCKET_IFNAME==bond0", "v100-01": "NCCL_SOCKET_IFNAME==eno1"}


def test_a_job_on_a_node_that_is_left_out() -> None:
    """It uses the environment as well: nothing there is changed, whatever nodes the run has."""
    converge()
    on("a100-01", f"printf x >>$(echo {LIBRARY})")
    job = on("v100-01", JOB).strip()
    try:
        refused = converge(INVENTORY, "--limit", "a100-01")
        assert refused.code == 1
        assert f"{ENVIRONMENT}: v100-01, which may share it" in refused.err
        assert f"pid {job} (root: sleep 173)" in refused.err
        assert on("a100-01", f"tail -c 1 {LIBRARY}") == "x"
    finally:
        on("v100-01", f"kill {job}")
    healed = converge(INVENTORY, "--limit", "a100-01")
    assert (healed.code, healed.failed) == (0, []), healed.err
    assert drift().code == 0

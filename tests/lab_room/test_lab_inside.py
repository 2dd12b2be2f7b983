"""Scripts run in the node's container, with its rights and limits, and nowhere else."""

import pytest

from gpu_node.lab import inside, nodes, podman, roster
from gpu_node.lab.errors import LabError

NODE = "v100-01"
LIMITS = """\
Limit                     Soft Limit           Hard Limit           Units
Max cpu time              unlimited            unlimited            seconds
Max core file size        0                    unlimited            bytes
Max processes             8192                 8192                 processes
Max open files            1024                 20000                files
Max locked memory         65536                8388608              bytes
"""


def test_the_limits_are_those_of_the_first_process() -> None:
    assert inside.limit_options(LIMITS) == [
        "--core=0:unlimited",
        "--nproc=8192:8192",
        "--nofile=1024:20000",
        "--memlock=65536:8388608",
    ]


def test_the_rights_are_those_of_the_first_process() -> None:
    assert inside.bounding_set("Name:\tsshd\nCapBnd:\t0000000000200003\n") == (
        "-all,+cap_0,+cap_1,+cap_21"
    )


@pytest.mark.lab
def test_a_script_sees_what_a_session_of_podman_sees() -> None:
    """The same rights, namespaces and folder; both return the exit code and both outputs."""
    asked = (
        "grep Cap /proc/self/status; pwd; hostname; id; cd /proc/self/ns;"
        " for each in *; do readlink $each; done; echo no >&2; exit 3"
    )
    container = roster.node(NODE).container
    here = nodes.execute(NODE, asked)
    there = podman.podman("exec", container, "sh", "-c", asked, check=False)
    for done in (here, there):
        assert (done.returncode, done.stderr) == (3, "no\n")
    assert here.stdout == there.stdout


@pytest.mark.lab
def test_processes_that_a_script_leaves_are_not_waited_for() -> None:
    begun = nodes.execute(NODE, "sleep 60 & echo $!", check=True).stdout
    nodes.execute(NODE, f"kill {begun}", check=True)


@pytest.mark.lab
def test_a_script_runs_in_no_other_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a restart of the container, its old number may belong to any process."""
    monkeypatch.setitem(inside._pids, roster.node(NODE).container, 1)
    assert nodes.execute(NODE, "hostname").stdout == f"{NODE}\n"
    monkeypatch.setattr(podman, "pid", lambda _: 1)
    monkeypatch.setitem(inside._pids, roster.node(NODE).container, 1)
    with pytest.raises(LabError, match=f"{NODE}: found it not running; next: gpu-node lab up"):
        nodes.execute(NODE, "hostname")

"""A missing Python environment is copied from another node, completely or not at all."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import yaml

from gpu_node.lab import nodes, roster
from tests.e2e.conftest import WriteInventory, others_off
from tests.e2e.on_lab import Converge, drift, kill_once, on, run

pytestmark = pytest.mark.lab

NODES = ("a100-01", "v100-01")
BARE, SOURCE = NODES
DIS = "/root/miniconda3/envs/dis"
PARTIAL = "/root/miniconda3/envs/.dis.gpu-node-partial"
DEPLOY = "deploy/environments.py"
COPY = f"Python environments | Copy {DIS} from {SOURCE}"
# All that a copy is to keep, by find and cksum.
LISTED = (
    f"cd {DIS} && find . -printf '%p %y %m %u %n %l %T@\\n' | sort && "
    "find . -type f | sort | xargs -d '\\n' cksum"
)


@pytest.fixture(scope="module")
def reset() -> None:
    """Two nodes as found, which do not know each other."""
    nodes.reset(NODES)


@pytest.fixture
def path(reset: None, inventory: WriteInventory) -> str:
    """An inventory of the mesh and of an environment, which one of the two lacks."""
    path = inventory({})
    file = Path(path).with_suffix(".yml")
    cluster = yaml.safe_load(file.read_text())
    settings = {"environments": [DIS], "copy_from": SOURCE}
    cluster["defaults"] = {"ssh": cluster["defaults"]["ssh"], "nccl": settings}
    cluster["defaults"]["checks"] = others_off(cluster)
    cluster["groups"] = {"gpu": None}
    cluster["hosts"] = {
        name: {"address": roster.NODES[name].address, "group": "gpu"} for name in NODES
    }
    file.write_text(yaml.safe_dump(cluster))
    on(BARE, "umount /root/miniconda3 2>/dev/null; rm -rf /root/miniconda3")
    return path


def copied(path: str) -> Converge:
    """Run the deploy of environments alone."""
    done = run("pyinfra", "-y", "--json", path, DEPLOY)
    results = done.json["results"]
    executed = {
        each["name"]: sorted([*each["success"], *each["error"]]) for each in results["operations"]
    }
    return Converge(done.code, executed, results["failed_hosts"], done.err)


def reported(path: str) -> dict[str, bool]:
    """Return the bare node's rules in the report, and whether the deploy repairs them."""
    findings = drift(path).json["hosts"][BARE]["findings"]
    return {each["rule"]: each["fixable"] for each in findings}


def is_there() -> str:
    """The environment, and what a copy may have left, on the bare node."""
    return on(BARE, f"ls -d {DIS} {PARTIAL} 2>/dev/null || :")


def test_it_is_copied_as_it_is(path: str) -> None:
    """Below a parent that is missing, with the mesh it needs; and then there is nothing to do."""
    assert reported(path)["nccl.environment-missing"]
    done = copied(path)
    assert done.code == 0, done.err
    assert done.executed[COPY] == [BARE]
    assert on(BARE, LISTED) == on(SOURCE, LISTED)
    assert is_there() == f"{DIS}\n"
    assert "nccl.environment-missing" not in reported(path)
    assert copied(path).executed == {}


@pytest.mark.lab_slow
def test_a_killed_copy_is_finished_by_the_next_run(path: str) -> None:
    """An incomplete copy never counts as an environment; files already sent are not sent again."""
    on(SOURCE, f"for n in 1 2 3 4; do head -c 150000000 /dev/urandom >{DIS}/big-$n; done")
    begun = f"ls -A {PARTIAL}/tree 2>/dev/null | grep -q big-"
    kill_once(BARE, begun, "pyinfra", "-y", path, DEPLOY)
    time.sleep(2)
    assert is_there() == f"{PARTIAL}\n"
    assert reported(path)["nccl.environment-missing"]
    done = copied(path)
    assert done.code == 0, done.err
    assert on(BARE, LISTED) == on(SOURCE, LISTED)
    assert is_there() == f"{DIS}\n"

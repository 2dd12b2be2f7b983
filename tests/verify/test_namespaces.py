"""Nodes that are tried with a real PyTorch: which of them is named, and which set works."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.node_scripts import until
from tests.verify import namespaces
from tests.verify.job_scripts import nccl_library
from tests.verify.namespaces import INTERFACE, Nodes

PYTHON = os.environ.get("GPU_NODE_TORCH", "/usr/bin/python3")
HAS_TORCH = subprocess.run([PYTHON, "-c", "import torch"], capture_output=True).returncode == 0
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0, reason="namespaces are made"),
    pytest.mark.skipif(not HAS_TORCH, reason=f"{PYTHON} has no torch (python3-torch of Debian)"),
]
NAMES = ("a100-01", "a100-02", "a100-03", "a100-04")


@pytest.fixture
def nodes() -> Iterator[Nodes]:
    """Four sound nodes; nothing may be left on them."""
    with (
        tempfile.TemporaryDirectory(dir="/var/tmp") as folder,
        namespaces.running(NAMES, Path(folder), PYTHON) as made,
    ):
        yield made
        assert made.left() == {}


def test_a_sound_set(nodes: Nodes) -> None:
    """Nothing is named, and the job of the launcher is run."""
    outcome = nodes.verify()
    assert (outcome.ok, outcome.named, outcome.problems) == (True, (), ())
    assert tuple(outcome.working) == NAMES
    for each in outcome.tries[: len(NAMES)]:
        (own,) = each.worked
        assert own.device.startswith("CPU ")
        assert min(own.product, own.memory) > 10**7


CUT = f"ip link set {INTERFACE} down"
SLOWED = f"tc qdisc add dev {INTERFACE} root tbf rate 20mbit burst 32k latency 400ms"
PAIR_CUT = "ip route add blackhole 10.99.0.4/32"
# The others find a node's address by its name.
WRONG_NAME = (
    "sed '/a100-03/s/^[0-9.]*/10.99.0.77/' /etc/hosts >/tmp/hosts; cat /tmp/hosts >/etc/hosts"
)


@pytest.mark.parametrize(
    ("on", "script", "named", "works"),
    [
        ("a100-03", CUT, "a100-03", "a100-01 a100-02 a100-04"),
        ("a100-03", SLOWED, "a100-03", "a100-01 a100-02 a100-04"),
        ("a100-02", PAIR_CUT, "a100-02 a100-04", "a100-01 a100-02 a100-03"),
        ("a100-03", WRONG_NAME, "a100-03", "a100-01 a100-02 a100-04"),
    ],
    ids=["cut", "slowed", "a pair", "its own name"],
)
def test_what_is_named(nodes: Nodes, on: str, script: str, named: str, works: str) -> None:
    """The node or the pair, and the others are the set that works."""
    nodes.on(on, script)
    outcome = nodes.verify()
    assert not outcome.ok
    assert [" ".join(each.members) for each in outcome.named] == [named], outcome
    assert " ".join(outcome.working) == works


def test_what_each_is_named_for(nodes: Nodes) -> None:
    """Another libnccl, and an interface that is not there; the others are the set that works."""
    nodes.python_with("a100-02", f"LD_PRELOAD={nccl_library(nodes.folder)}")
    nodes.python_with("a100-03", "GLOO_SOCKET_IFNAME=train9")
    outcome = nodes.verify()
    named = {" ".join(each.members): each.why for each in outcome.named}
    assert named == {
        "a100-02": "NCCL differs: a100-01 none, a100-02 2.19.3, a100-03 none, a100-04 none",
        "a100-03": f"GLOO_SOCKET_IFNAME is train9 there, and its interfaces are lo, {INTERFACE}",
    }
    assert (outcome.ok, " ".join(outcome.working)) == (False, "a100-01 a100-04")


def test_nothing_is_left_after_a_kill(nodes: Nodes) -> None:
    """A node notices that the controller is gone by the end of its connection."""
    nodes.on("a100-03", CUT)
    with pytest.raises(Killed):
        nodes.verify(progress=killed_in_a_pair, ends=False)
    assert until(lambda: nodes.left() == {})


class Killed(BaseException):
    """The controller is gone: it neither ends the run nor cleans up."""


def killed_in_a_pair(stage: str) -> None:
    if stage.count("+") == 2:
        raise Killed

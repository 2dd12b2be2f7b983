"""The pre-flight check of v100-02, bare and as found, and with one problem at a time."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from gpu_node.drift.engine.blocking import bars_joining
from gpu_node.drift.engine.finding import Finding
from gpu_node.drift.engine.registry import RULES
from gpu_node.drift.network.rules_newcomer import route_to, way
from gpu_node.lab import nodes, roster
from gpu_node.onboarding import preflight
from gpu_node.onboarding.journal import Journal
from gpu_node.onboarding.preflight import Answers
from tests.e2e.conftest import APT_NODE, WriteInventory, let_in
from tests.e2e.on_lab import changed, manifest, on

pytestmark = pytest.mark.lab

ADDRESS = roster.NODES[APT_NODE].address
MEMBERS = ("a100-01", "v100-01")
Look = Callable[[], Answers]


def _run(script: str, seconds: int) -> list[str]:
    """As a first session runs it: sh over SSH, without a terminal."""
    options = ["-i", str(roster.CLIENT_KEY), "-o", "BatchMode=yes"]
    options += ["-o", "StrictHostKeyChecking=accept-new", "-o", "UserKnownHostsFile=/dev/null"]
    done = subprocess.run(
        ["ssh", "-n", *options, f"root@{ADDRESS}", script],
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    return done.stdout.removesuffix("\n").split("\n")


@pytest.fixture(scope="module")
def bare() -> str:
    """All nodes as found, v100-02 with the lab's key installed manually; returns its host key."""
    nodes.reset()
    let_in(APT_NODE)
    kind, blob, *_ = on(APT_NODE, "cat /etc/ssh/ssh_host_ed25519_key.pub").split()
    return f"{kind} {blob}"


@pytest.fixture
def look(bare: str, inventory: WriteInventory) -> Look:
    """Return the pre-flight check of v100-02 with the lab's nodes."""
    path, given = inventory({}), Journal(name=APT_NODE, address=ADDRESS, user="root", port=22)
    return lambda: preflight.look(_run, path, given, host_keys=[bare])


@contextmanager
def broken(node: str, wrong: str, right: str) -> Iterator[None]:
    """Break something on a node for a while."""
    on(node, wrong)
    try:
        yield
    finally:
        on(node, right)


def _findings(looked: Answers) -> dict[str, Finding]:
    return {each.rule: each for each in looked.report().hosts[APT_NODE].findings}


def test_as_found_it_may_become_a_node(look: Look) -> None:
    """Nothing stops it, all could be read, and nothing on it was changed."""
    before = manifest(APT_NODE)
    looked = look()
    found = _findings(looked)
    assert changed(before, manifest(APT_NODE)) == set()
    assert [each for each in found.values() if bars_joining(each)] == []
    assert [rule for rule in found if rule not in RULES] == []
    # A node of the lab is a container, which has no machine-id, and the driver of its host.
    assert {rule for rule in found if "a newcomer" in RULES[rule].when} == {"host.machine-id"}
    assert looked.gpus == ("Tesla V100-PCIE-32GB",) * 2
    assert looked.interface == "eno1"
    for member in MEMBERS:
        theirs, state = roster.NODES[member], looked.nodes.states[member]
        there, back = route_to(member, looked.state), route_to(APT_NODE, state)
        assert there and way(there) == f"by eno1 from {ADDRESS}"
        assert back and way(back) == f"by {theirs.interface} from {theirs.address}"


def test_what_is_wrong_on_it_is_reported(look: Look) -> None:
    """A full disk, another node's machine-id, and a missing repository."""
    full = "mount -t tmpfs -o size=1m lab /opt && head -c 2m /dev/zero >/opt/full 2>/dev/null; :"
    id_ = f"mv /etc/machine-id /root/kept; echo {'5' * 32} >/etc/machine-id"
    no_id = "rm /etc/machine-id; mv /root/kept /etc/machine-id || :"
    source = "/etc/apt/sources.list.d/gone.list"
    gone = f"echo 'deb [trusted=yes] http://{roster.MIRROR_ADDRESS}/gone ./' >{source}"
    with (
        broken(APT_NODE, full, "umount /opt"),
        broken(APT_NODE, id_, no_id),
        broken("a100-01", id_, no_id),
        broken(APT_NODE, gone, f"rm {source}"),
        broken(APT_NODE, "hostname other", f"hostname {APT_NODE}"),
    ):
        found = _findings(look())
    space = found["host.space-for-deploy"]
    assert (space.subject, bars_joining(space)) == ("/opt", True)
    twin = found["host.node-already"]
    assert (twin.found, bars_joining(twin)) == ("a100-01, or a clone of it", True)
    assert "systemd-machine-id-setup" in twin.fix
    assert "404" in found["host.repositories"].cause
    assert found["host.name"].fix.startswith(
        "name it at its start: docker or podman run --hostname NAME"
    )

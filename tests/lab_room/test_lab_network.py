"""The lab's bridge and its ports do not touch other networks."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from gpu_node.lab import network, nodes, roster

# Stands in for ip and nsenter: records its arguments.
STUB = '#!/bin/sh\necho "${0##*/} $*" >>"${0%/*}/asked"\n'


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The calls of the network's scripts, run with stand-ins alone; a line each."""
    for name in ("ip", "nsenter"):
        (tmp_path / name).write_text(STUB)
        (tmp_path / name).chmod(0o755)

    def as_root(argv: Sequence[str], *, stdin: str) -> None:
        shell = ["/bin/sh", *argv[1:]]
        subprocess.run(shell, input=stdin, env={"PATH": str(tmp_path)}, text=True, check=True)

    monkeypatch.setattr(network, "as_root", as_root)
    return tmp_path / "asked"


def test_our_own_bridge_is_no_conflict() -> None:
    assert network.interface_of_other("10.168.144.0/24 dev gpu-node-lab proto kernel") == ""
    assert network.interface_of_other("") == ""


def test_another_interface_is_named() -> None:
    assert network.interface_of_other("10.168.144.0/24 dev eth1 proto kernel\n") == "eth1"


def test_a_mac_follows_from_the_address() -> None:
    assert network.mac_address("10.168.144.4") == "02:00:0a:a8:90:04"


def test_a_port_is_of_one_machine_of_one_lab(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [name for name, _ in nodes.machines()]
    ours = {network.port(name) for name in names}
    monkeypatch.setattr(network, "BRIDGE", "another-lab")
    others = {network.port(name) for name in names}
    assert len(ours | others) == 2 * len(names)
    assert all(len(port) <= 15 for port in ours | others)  # IFNAMSIZ, less the end


def test_the_bridges_name_fits() -> None:
    assert len(network.BRIDGE) <= 15


def test_a_port_that_a_killed_run_left_is_deleted_first(asked: Path) -> None:
    network.connect("a100-01", 1, "bond0", "10.168.144.4")
    port = network.port("a100-01")
    first, second, *_ = asked.read_text().splitlines()
    assert first == f"ip link delete {port}"
    assert second.startswith(f"ip link add {port} type veth peer name bond0 ")


def test_removing_the_network_leaves_no_port(asked: Path) -> None:
    """Each is deleted by its name: a killed run may have made one without connecting it."""
    network.remove()
    calls = asked.read_text().splitlines()
    for name in (*roster.NODES, roster.MIRROR):
        assert f"ip link delete {network.port(name)}" in calls
    assert calls[-1] == f"ip link delete {network.BRIDGE}"

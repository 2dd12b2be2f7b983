"""The lab's bridge keeps away from networks that are not the lab's."""

import pytest

from lab import network, nodes


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

"""Which interfaces NCCL takes: by a value, by its own choice, and which is the right one."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_node.drift.network.interfaces import (
    by_itself,
    candidates,
    choose,
    is_never,
    is_unset,
    selected,
)
from gpu_node.facts.network.state import NetworkState
from gpu_node.inventories.wanted import NetworkWanted

NAMES = ["lo", "eth0", "eth1", "eth10", "bond0", "docker0"]


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("eth1", ["eth1", "eth10"]),
        ("=eth1", ["eth1"]),
        ("eth0,bond", ["eth0", "bond0"]),
        ("=eth0,eth1", ["eth0", "eth1"]),
        ("^lo,docker", ["eth0", "eth1", "eth10", "bond0"]),
        ("^eth1", ["lo", "eth0", "bond0", "docker0"]),
        ("^=eth1", ["lo", "eth0", "eth10", "bond0", "docker0"]),
        ("eth0, eth1", ["eth0"]),
        ("eth0\r", []),
        ("'eth0'", []),
        ("bond1", []),
        ("=", []),
        ("eth0,", ["eth0"]),
    ],
)
def test_what_a_value_selects(value: str, found: list[str]) -> None:
    """Prefixes, unless = stands in front; nothing is trimmed."""
    assert selected(value, NAMES) == found


def test_what_counts_as_unset() -> None:
    """Nothing, and a single character."""
    assert [is_unset(value) for value in (None, "", "e", "e0")] == [True, True, True, False]


def state(*links: tuple[str, str, str]) -> NetworkState:
    """A node with interfaces given as name, state, address."""
    found: dict[str, Any] = {
        "links": [
            {"name": name, "up": True, "state": state, "mtu": 1500, "speed": None, "kind": "bond"}
            for name, state, _ in links
        ],
        "addresses": [
            {"interface": name, "address": address, "scope": "global"}
            for name, _, address in links
            if address
        ],
        "routes": [],
    }
    return NetworkState.model_validate(found)


SERVER = state(
    ("lo", "unknown", "127.0.0.1/8"),
    ("eno1", "up", "192.0.2.4/24"),
    ("eno2", "up", ""),
    ("eno3", "down", "198.51.100.4/24"),
    ("virbr0", "down", "192.168.122.1/24"),
    ("docker0", "down", "172.17.0.1/16"),
)


@pytest.mark.parametrize(
    ("version", "found"),
    [
        (None, ["eno1", "eno3", "virbr0"]),
        ((2, 18, 1), ["eno1", "eno3", "virbr0"]),
        ((2, 28, 3), ["eno1"]),
    ],
)
def test_what_nccl_takes_by_itself(version: tuple[int, ...] | None, found: list[str]) -> None:
    """docker's and lo never; virbr0 and what does not run until 2.28."""
    assert by_itself(SERVER, version) == found


def test_nothing_but_docker() -> None:
    """What is spared is taken where there is nothing else."""
    alone = state(("lo", "unknown", "127.0.0.1/8"), ("docker0", "up", "172.17.0.1/16"))
    assert by_itself(alone, (2, 18, 1)) == ["lo", "docker0"]
    assert candidates(SERVER, (2, 28, 3)) == ["lo", "eno1"]


def test_infiniband_comes_first() -> None:
    """IP over InfiniBand, if it has an address."""
    both = state(("eno1", "up", "192.0.2.4/24"), ("ib0", "up", "198.51.100.4/24"))
    assert by_itself(both, None) == ["ib0"]


@pytest.mark.parametrize("name", ["lo", "docker0", "virbr0-nic", "br-3f1c", "veth9", "tailscale0"])
def test_never(name: str) -> None:
    """What leads to no other machine."""
    assert is_never(name)


@pytest.mark.parametrize(
    "name", ["eno1", "bond0", "br0", "bridge", "loopy0", "ib0", "vlan7", "wg0"]
)
def test_what_may_be_chosen(name: str) -> None:
    """A bridge that an administrator made may carry the node's address."""
    assert not is_never(name)


@pytest.mark.parametrize(
    ("address", "name", "known"),
    [
        ("192.0.2.4", "eno1", True),
        ("::ffff:192.0.2.4", None, True),
        ("172.17.0.1", None, True),
        ("127.0.0.1", None, True),
        ("203.0.113.1", None, True),
        ("a100-01.example.org", None, True),
    ],
)
def test_the_interface_by_the_address(address: str, name: str | None, known: bool) -> None:
    """The one that carries it; none where it is on none, and no route decides."""
    choice = choose(SERVER, NetworkWanted(interface="auto"), address)
    assert (choice.name, choice.known) == (name, known)


def test_what_could_not_be_read_is_unknown() -> None:
    """Also where the inventory names an interface."""
    unread = NetworkState(links=None, addresses=None, routes=None)
    for interface in ("auto", "eno1"):
        choice = choose(unread, NetworkWanted(interface=interface), "192.0.2.4")
        assert (choice.name, choice.known) == (None, False)

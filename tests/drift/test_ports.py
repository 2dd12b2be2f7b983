"""Which nodes try ports: by the inventory, their answers, and the addresses of their jobs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import pytest
from pyinfra.api import Host

from gpu_node.drift.ports import ends as module
from gpu_node.drift.ports.ends import ends
from gpu_node.facts.ask.gather import Answer
from gpu_node.facts.ports import trying
from gpu_node.facts.ports.state import Tried
from tests.drift import states

RESULT = {"tried": {"n2": Tried(ports=("open", "dropped", "open"))}, "first": 32768, "last": 60999}


class Named:
    """A host of which only the name is used."""

    def __init__(self, name: str) -> None:
        self.name = name


def node(number: int, *others: str, **data: object) -> Answer:
    """Return the answer of a node whose address ends with a number, with `others` at ib0."""
    own = f"192.0.2.{number}"
    addresses = {f"{own}/24": "eno1", **dict.fromkeys(others, "ib0")}
    network = {
        "links": [_link("eno1"), _link("ib0")],
        "addresses": [
            {"interface": name, "address": each, "scope": "global"}
            for each, name in addresses.items()
        ],
    }
    return Answer({"ssh_hostname": own, **data}, states.state({"network": network}), reached=True)


def _link(name: str) -> dict[str, Any]:
    return {"name": name, "up": True, "state": "up", "mtu": 1500, "speed": None, "kind": "physical"}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The addresses of the nodes that try ports; each has the same result."""
    found: dict[str, str] = {}

    def results(given: Mapping[Host, str]) -> dict[str, dict[str, Any]]:
        found.update({host.name: address for host, address in given.items()})
        return dict.fromkeys(found, RESULT)

    monkeypatch.setattr(trying, "try_ports", results)
    return found


def after(*answers: Answer) -> list[Answer]:
    """Return answers of n1, n2, ... after ports were tried."""
    hosts = {cast(Host, Named(f"n{at}")): each for at, each in enumerate(answers, 1)}
    found = ends({host.name: each for host, each in hosts.items()})
    return [*trying.with_ports(hosts, found).values()]


def untried(answer: Answer) -> str:
    """Return why a node took no part."""
    assert answer.state is not None
    return answer.state.ports.untried


def test_the_address_of_the_inventory(asked: dict[str, str]) -> None:
    """Without an interface in it; the state has what was tried, and where."""
    first, second = after(node(11), node(12))
    assert asked == {"n1": "192.0.2.11", "n2": "192.0.2.12"}
    assert first.state is not None
    ports = first.state.ports
    assert (ports.tried, ports.first, ports.last) == (RESULT["tried"], 32768, 60999)
    assert (ports.address, ports.interface) == ("192.0.2.11", "eno1")
    assert untried(second) == ""


@pytest.mark.parametrize(
    ("address", "takes"),
    [("10.9.0.11/24", "10.9.0.11"), ("2001:db8::11/64", "2001:db8::11")],
)
def test_the_interface_of_the_inventory(asked: dict[str, str], address: str, takes: str) -> None:
    """Jobs listen at its address, not at that of the login."""
    after(node(11, address, network_interface="ib0"), node(12))
    assert asked == {"n1": takes, "n2": "192.0.2.12"}


@pytest.mark.parametrize(
    ("data", "others", "why"),
    [
        ({"network_interface": "ib1"}, (), "there is no interface ib1"),
        ({"network_interface": "ib0"}, (), "ib0 has no address that another machine reaches"),
        ({"network_interface": "ib0"}, ("127.0.0.9/8",), "ib0 has no address that"),
        ({"network_interface": "ib0"}, ("192.0.2.12/24",), "is the address of another node, too"),
        ({"ssh_hostname": "198.51.100.1"}, (), "no interface has 198.51.100.1"),
    ],
)
def test_no_address_for_jobs(
    asked: dict[str, str], data: dict[str, object], others: tuple[str, ...], why: str
) -> None:
    """It takes no part, and says why: no node connects where another machine may be."""
    first, second, third = after(node(11, *others, **data), node(12), node(13))
    assert why in untried(first)
    assert "n1" not in asked
    assert untried(third) == ""
    assert second.state is not None


def test_one_machine_with_two_names(asked: dict[str, str]) -> None:
    """Neither tries; one that is alone then has none to try with."""
    first, second, third = after(node(11), node(11), node(13))
    assert untried(first) == untried(second) == "192.0.2.11 is the address of another node, too"
    assert (asked, untried(third)) == ({}, "")


@pytest.mark.parametrize(
    "without",
    [
        node(11, checks={"ports": False}),
        node(11, checks={"ports.blocked": {"until": "9999-12-31", "reason": "maintenance"}}),
        node(11, gpu_model="none", gpu_count=0),
        Answer({"ssh_hostname": "192.0.2.11"}, error="no answer"),
        Answer({"ssh_hostname": "192.0.2.11", "shm_size": "much"}, states.state()),
    ],
    ids=["off", "off until", "no GPU", "no answer", "inventory"],
)
def test_who_takes_no_part(asked: dict[str, str], without: Answer) -> None:
    """Nothing is sent there, and it has no finding; two others try."""
    assert after(without, node(12))[0] == without
    assert asked == {}
    assert after(without, node(12), node(13))[0] == without
    assert asked.keys() == {"n2", "n3"}


def test_more_nodes_than_sessions_stay_open(
    asked: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All say so."""
    monkeypatch.setattr(module, "MOST_OPEN", 2)
    found = after(node(11), node(12), node(13))
    assert {untried(each) for each in found} == {"the report has more than 2 nodes"}
    assert asked == {}

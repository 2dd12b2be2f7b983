"""The stored answers of a benchmark: each node's own name and addresses, in valid frames."""

from __future__ import annotations

import re

import pytest

from bench.nodes.answers import changed_places
from bench.nodes.cluster import MOST, nodes
from bench.nodes.probed import framed, sections
from gpu_node.facts.probe.protocol import Section, read

pytestmark = pytest.mark.slow

FIRST, SECOND, *_, TENTH = nodes(10)
ROUTES = """\
node-001 127.0.1.1 local 127.0.1.1 dev lo src 127.0.1.1 uid 0
node-010 127.0.1.10 127.0.1.10 dev eth0 src 127.0.1.1 uid 0
node-002 127.0.1.2 127.0.1.2 dev eth0 src 127.0.1.1 uid 0"""


def test_nodes_have_different_addresses_of_loopback() -> None:
    """As many as are measured."""
    addresses = {each.address for each in nodes(MOST)}
    assert len(addresses) == len({each.name for each in nodes(MOST)}) == MOST
    assert all(re.match(r"127\.0\.[1-4]\.", each) for each in addresses)


def test_two_nodes_change_places() -> None:
    """A longer address that begins with another one stays, and so do those of other nodes."""
    assert changed_places(ROUTES, FIRST, TENTH).splitlines() == [
        "node-010 127.0.1.10 local 127.0.1.10 dev lo src 127.0.1.10 uid 0",
        "node-001 127.0.1.1 127.0.1.1 dev eth0 src 127.0.1.10 uid 0",
        "node-002 127.0.1.2 127.0.1.2 dev eth0 src 127.0.1.10 uid 0",
    ]
    assert changed_places(ROUTES, FIRST, FIRST) == ROUTES


def test_other_forms_of_an_address_change_as_well() -> None:
    """The second address, with its length of the network, and the form of /proc/net/route."""
    text = "10.77.1.1/16 0101007F 0101 1.127.0.1.1 127.0.1.1.5 127.0.1.1. [127.0.1.1]"
    assert changed_places(text, FIRST, SECOND) == (
        "10.77.1.2/16 0201007F 0101 1.127.0.1.1 127.0.1.1.5 127.0.1.2. [127.0.1.2]"
    )


def test_an_answer_is_read_as_the_probe_sent_it() -> None:
    """Sections that are taken apart and put together again are those of the protocol."""
    given = {
        "host.name": (0, "raw", "name a\nb"),
        "env.file": (1, "raw", ""),
        "x.y": (0, "raw", "z"),
    }
    text = framed(given)
    assert sections(text) == given
    found = read(text.split("\n"), [Section(name, "") for name in given])
    assert {name: (each.rc, each.text) for name, each in found.sections.items()} == {
        name: (code, text) for name, (code, _, text) in given.items()
    }

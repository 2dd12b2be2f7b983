"""The mesh of a large cluster: every broken node is named, and every link that is known to be."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_node.drift.engine.finding import Finding
from gpu_node.drift.engine.subject import Logins
from gpu_node.drift.ssh.shown import logins
from gpu_node.facts.node import UnreadSection
from gpu_node.facts.probe.peers import FULL_MESH
from tests.drift.clusters import LINKS, NODES, Cluster, named
from tests.examples import examples

COUNT = 200
# What nodes have grows with the square of their number; these try a part of all logins as well.
FEW = 40
PLACES = st.integers(0, FEW - 1)
BROKEN = st.dictionaries(st.tuples(PLACES, PLACES), st.sampled_from(sorted(LINKS)), max_size=6)


def of_logins(cluster: Cluster) -> list[tuple[str, Finding]]:
    """The findings about logins, each with its node."""
    return [
        (name, each)
        for name, found in cluster.findings().items()
        for each in found
        if isinstance(each.about, Logins)
    ]


def in_words(text: str) -> Iterator[str]:
    """The nodes that a text names, alone or as ranges."""
    for begin, numbers in re.findall(r"\b(n)(\d{3}|\[[\d,-]+\])", text):
        for span in numbers.strip("[]").split(","):
            first, _, last = span.partition("-")
            for number in range(int(first), int(last or first) + 1):
                yield f"{begin}{number:03}"


def test_a_healthy_cluster_has_one_note() -> None:
    """How many of how many logins were tried: 8 by each node, and one to each by the first."""
    found = [each for of in Cluster(COUNT).findings().values() for each in of]
    (note,) = found
    assert (note.rule, note.severity) == ("ssh.logins-partial", "info")
    assert note.found == f"{199 * 8 + 200} of {200 * 200} logins between nodes tried"
    assert "--mesh all" in note.fix
    assert [each for of in Cluster(FULL_MESH).findings().values() for each in of] == []
    assert [each for of in Cluster(FEW, every_login=True).findings().values() for each in of] == []


def test_a_result_that_is_missing_is_no_login_left_out() -> None:
    """With `--mesh all` it is a finding of its node, and not one more run with --mesh all."""
    cluster = Cluster(FEW, every_login=True)
    here = cluster.names[7]
    state = cluster.states[here]
    less = state.ssh.model_copy(update={"logins": (state.ssh.logins or ())[1:]})
    cluster.states[here] = state.model_copy(update={"ssh": less})
    assert [each for of in cluster.findings().values() for each in of] == []


@given(BROKEN, st.dictionaries(PLACES, st.sampled_from(NODES), max_size=2), st.booleans())
@settings(max_examples=examples(50), deadline=None)
def test_what_is_broken_is_named(
    links: dict[tuple[int, int], str], nodes: dict[int, str], every_login: bool
) -> None:
    """Each node, each link that was tried, and each whose cause is in what nodes have; no other."""
    cluster = Cluster(FEW, links, nodes, every_login)
    found = of_logins(cluster)
    by_node: dict[str, list[Finding]] = {}
    for name, each in found:
        by_node.setdefault(name, []).append(each)
    shown = named(by_node, cluster.names)
    known = {
        (cluster.names[here], cluster.names[there])
        for here in range(FEW)
        for there in (*cluster.tried(here), *(there for at, there in links if at == here))
        if cluster.is_broken((here, there))
        and (there in cluster.tried(here) or LINKS[links[here, there]])
    }
    assert shown == known
    for place in nodes:
        assert any(cluster.names[place] in link for link in shown)
    if every_login:
        pairs = ((here, there) for here in range(FEW) for there in range(FEW))
        assert len(shown) == sum(map(cluster.is_broken, pairs))
    for _, each in found:
        assert isinstance(each.about, Logins)
        assert each.about.names <= set(in_words(each.found))


@pytest.mark.parametrize("fault", LINKS)
def test_a_broken_link_has_its_cause(fault: str) -> None:
    """A login that was tried has the rule of its cause as root; one that was not has the cause."""
    cause = {
        "unknown": ("n000", "ssh.unknown-host-key"),
        "changed": ("n000", "ssh.host-key-changed"),
        "hosts": ("n000", "ssh.name-unresolved"),
        "authorized": ("n007", "ssh.not-authorised"),
        "from": ("n007", "ssh.not-authorised"),
    }
    tried = of_logins(Cluster(20, {(0, 7): fault}))
    failed = [(name, each) for name, each in tried if each.rule == "ssh.no-login"]
    ((name, login),) = failed
    assert name == login.subject == "n000" and login.found.startswith("n007: by name: ")
    assert login.fixable is (fault in cause)
    root = (login.root.node, login.root.rule) if login.root is not None else None
    assert root == cause.get(fault)
    untried = of_logins(Cluster(20, {(3, 9): fault}))
    assert bool(untried) is LINKS[fault]
    assert {each.rule for _, each in untried} <= {rule for _, rule in cause.values()}


def test_many_peers_are_one_finding() -> None:
    """A node that knows no host and is let in nowhere: a finding for each root, not each peer."""
    links = {(5, there): "unknown" for there in range(COUNT)}
    links |= {(there, 5): "authorized" for there in range(COUNT) if there != 5}
    found = of_logins(Cluster(COUNT, links, every_login=True))
    own = [each for name, each in found if name == "n005"]
    assert [(each.rule, each.found) for each in own] == [
        (
            "ssh.not-authorised",
            "199 nodes, n[000-004,006-199]: ~/.ssh/authorized_keys has no line that accepts its "
            "key",
        ),
        ("ssh.unknown-host-key", "200 nodes, n[000-199]: no ssh-ed25519 key by name or address"),
        (
            "ssh.no-login",
            "200 nodes, n[000-199]: by name: ssh: connect to host NODE port 22: No route to host",
        ),
    ]
    assert all(each.subject == "n005" and each.fixable for each in own)
    others = [each for name, each in found if name != "n005"]
    assert {(each.rule, each.found[:5], each.root and each.root.node) for each in others} == {
        ("ssh.no-login", "n005:", "n005")
    }
    assert len(others) == COUNT - 1


def test_as_found_a_cluster_has_few_findings() -> None:
    """No node has a key, a known host or a name: for 200 nodes, some for each, and not 40,000."""
    cluster = Cluster(COUNT)
    bare: dict[str, Any] = {
        "authorized": {"lines": []},
        "logins": (),
        "known_hosts": {"keys": {}, "block": {"lines": []}},
        "names": {"names": dict.fromkeys(cluster.names, ()), "addresses": {}, "sources": ()},
    }
    for name, state in cluster.states.items():
        account = state.ssh.account
        assert account is not None
        keyless = {"account": account.model_copy(update={"public": None}).model_dump(), **bare}
        ssh = type(state.ssh).model_validate({**state.ssh.model_dump(), **keyless})
        cluster.states[name] = state.model_copy(update={"ssh": ssh})
    found = cluster.findings()
    assert max(len(each) for each in found.values()) <= 6
    first = [(each.rule, each.root and each.root.node) for each in found["n007"]]
    assert first == [
        ("ssh.key-missing", None),
        ("ssh.not-authorised", "n000"),
        ("ssh.not-authorised", "n007"),
        ("ssh.unknown-host-key", None),
        ("ssh.name-unresolved", None),
    ]


@pytest.mark.parametrize("count", [FULL_MESH + 1, 50, 200, 257])
def test_each_node_is_tried_by_others(count: int) -> None:
    """By the first one, and by about log2 of their number: what is wrong with it is seen."""
    cluster = Cluster(count)
    tried = {here: cluster.tried(here) for here in range(count)}
    assert tried[0] == list(range(count))
    for here in range(1, count):
        far = [(there - here) % count for there in tried[here]]
        assert far == list(islice((1 << power for power in range(20)), len(far)))
        assert far[-1] < count <= 2 * far[-1]
        assert sum(here in each for each in tried.values()) >= len(far)


def test_a_login_without_a_result_is_not_among_all_that_work() -> None:
    """The row of facts says that there are others."""
    state = Cluster(4).states["n000"]
    assert logins(state) == "4 of 4"
    unread = UnreadSection(area="ssh", section="ssh.logins", reason="no result of n001 by name")
    assert logins(state.model_copy(update={"unreadable": (unread,)})) == "4 of 4, others unknown"

"""`hostfile --healthy`: the largest set of nodes on which a job can start, and who is not in it."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from gpu_node.drift.engine.blocking import blocks_a_job, kinds
from gpu_node.drift.engine.finding import Finding
from gpu_node.drift.engine.subject import Logins, Peers, Subject, Thing
from gpu_node.drift.healthy import Healthy, healthy
from gpu_node.drift.report.model import HostReport
from gpu_node.drift.report.seen import Seen
from gpu_node.drift.report.start import start
from gpu_node.drift.together import MOST_EXACT
from gpu_node.facts.ssh.logins import Login
from tests.drift import states
from tests.drift.reports import FRESH, GONE, MUTE, WARNING, report

Pairs = Iterable[tuple[str, str]]


def _node(name: str, peers: Iterable[str], failed: Iterable[str] = (), **data: Any) -> Seen:
    """Return a node that tried logins to its peers, of which some failed."""
    logins = [
        Login(node=peer, how="name", code=255 if peer in failed else 0, output="") for peer in peers
    ]
    seen = states.seen(**data)
    assert seen.state is not None
    ssh = seen.state.ssh.model_copy(update={"logins": tuple(logins)})
    return replace(seen, state=seen.state.model_copy(update={"ssh": ssh}))


def _meshed(names: list[str], apart: Pairs) -> dict[str, Seen]:
    """Return nodes that log in to each other, but for these pairs, from the first to the second."""
    known = list(apart)
    return {
        name: _node(name, names, [there for here, there in known if here == name]) for name in names
    }


def _of(seen: dict[str, Seen]) -> Healthy:
    return healthy(report(seen).hosts, seen)


NAMES = ["a", "b", "c", "d"]


@pytest.mark.parametrize(
    ("apart", "nodes", "left_out"),
    [
        ([], "abcd", {}),
        ([("b", "a")], "acd", {"b": "failed logins between it and a"}),
        (
            [("c", "a"), ("c", "b"), ("d", "c")],
            "abd",
            {"c": "failed logins between it and a, b, d"},
        ),
        ([("a", "a")], "bcd", {"a": "no login from it to itself"}),
        (
            [("a", "b"), ("c", "d")],
            "ac",
            {"b": "failed logins between it and a", "d": "failed logins between it and c"},
        ),
        (
            # Without the node of most failures: the largest set has none of its neighbours.
            [("a", "b"), ("a", "c"), ("a", "d"), ("b", "c")],
            "bd",
            {"a": "failed logins between it and b, d", "c": "failed logins between it and b"},
        ),
    ],
)
def test_pairs_that_do_not_log_in(apart: Pairs, nodes: str, left_out: dict[str, str]) -> None:
    """Either direction counts."""
    found = _of(_meshed(NAMES, apart))
    assert (found.nodes, found.left_out) == (tuple(nodes), left_out)
    assert (found.is_largest, found.untried) == (True, 0)


def test_nodes_that_are_not_fit() -> None:
    """No answer, an error, another number of GPUs; a warning leaves no node out."""
    seen = {
        "gone": GONE,
        "mute": MUTE,
        "small": states.seen(FRESH),
        "warned": states.seen(WARNING),
        "fell-off": states.seen(gpu_count=8, checks={"driver": False}),
        "well": states.seen(),
    }
    found = _of(seen)
    assert found.nodes == ("warned", "well")
    reasons = dict(found.left_out)
    assert reasons["gone"].startswith("unreachable: Could not connect")
    assert reasons["mute"] == "unreadable: the probe could not run: no output"
    assert reasons["small"] == "shm.too-small: /dev/shm: 64M"
    assert reasons["fell-off"].startswith("found 2 GPUs; allowed: 8")
    assert found.untried == 1


def _finding(about: Subject, **fields: Any) -> Finding:
    return Finding(
        subject=str(about),
        found="another key",
        wanted="that key",
        cause="why",
        fix="how",
        fixable=False,
        step="ssh",
        about=about,
        **{"rule": "ssh.host-key-changed", "severity": "error", **fields},
    )


@pytest.mark.parametrize(("severity", "nodes"), [("error", ("a",)), ("warning", ("a", "b"))])
def test_a_finding_about_a_pair(severity: Any, nodes: tuple[str, ...]) -> None:
    """It leaves out one of the two, not both; no login of theirs need be tried."""
    seen = {name: states.seen() for name in ("a", "b")}
    hosts = report(seen).hosts
    found = _finding(Logins("a", (Peers("differs", ("b", "of-another-run")),)), severity=severity)
    hosts = {**hosts, "a": hosts["a"].model_copy(update={"findings": [found]})}
    assert healthy(hosts, seen).nodes == nodes
    assert blocks_a_job(found, kinds(2)) is (severity == "error")


@pytest.mark.parametrize(("names", "nodes"), [("a", ("a",)), ("ab", ("b",))])
def test_a_finding_about_jobs_of_several_nodes(names: str, nodes: tuple[str, ...]) -> None:
    """On the only node it stops no job, as the last line of the report says."""
    seen = {name: states.seen() for name in names}
    wrong = report(seen)
    found = _finding(Thing("eno1"), rule="network.interface-down")
    wrong.hosts["a"] = wrong.hosts["a"].model_copy(update={"findings": [found]})
    assert healthy(wrong.hosts, seen).nodes == nodes
    stopped = {name for each in start(wrong).stopped.values() for name in each}
    assert stopped == {*names} - {*nodes}


def test_what_is_off_leaves_no_node_out() -> None:
    """It is no failure; a login that fails stays one."""
    seen = {name: states.seen(FRESH, checks={"shm": False, "limits": False}) for name in ("a", "b")}
    assert _of(seen).nodes == ("a", "b")
    seen["a"] = _node("a", ["b"], ["b"], checks={"ssh": False})
    assert _of(seen).nodes == ("a",)


def _is_apart(one: str, other: str, apart: set[tuple[str, str]]) -> bool:
    return (one, other) in apart or (other, one) in apart


@pytest.mark.parametrize("seed", range(20))
def test_no_larger_set_exists(seed: int) -> None:
    """Of a few nodes, all sets are tried."""
    draw = random.Random(seed)  # noqa: S311
    names = [f"n{number}" for number in range(9)]
    pairs = list(itertools.combinations(names, 2))
    apart = {pair for pair in pairs if draw.random() < (seed % 5 + 1) / 6}
    found = _of_graph(names, apart)
    sizes = [
        len(some)
        for size in range(len(names) + 1)
        for some in itertools.combinations(names, size)
        if not any(_is_apart(*pair, apart) for pair in itertools.combinations(some, 2))
    ]
    assert len(found.nodes) == max(sizes)
    assert not any(_is_apart(*pair, apart) for pair in itertools.combinations(found.nodes, 2))
    assert [*found.nodes] == [name for name in names if name in found.nodes]


def _of_graph(names: list[str], apart: set[tuple[str, str]]) -> Healthy:
    """Return the set without a judgement: the nodes have no finding."""
    seen = _meshed(names, apart)
    return healthy(dict.fromkeys(names, HostReport(status="ok")), seen)


@pytest.mark.parametrize("nodes", [MOST_EXACT, MOST_EXACT + 1, 100])
def test_many_nodes(nodes: int) -> None:
    """Those that log in to all are in it, and do not count; the rest is not tried in full."""
    names = [f"n{number:03}" for number in range(nodes)]
    pairs = itertools.combinations(names, 2)
    apart = {pair for place, pair in enumerate(pairs) if place % 3 == 0}
    apart |= {*itertools.pairwise(names)}
    found = _of_graph([*names, "x", "y"], apart)
    assert {"x", "y"} <= {*found.nodes} and len(found.nodes) > 3
    assert not any(_is_apart(*pair, apart) for pair in itertools.combinations(found.nodes, 2))
    assert found.is_largest is (nodes <= MOST_EXACT)

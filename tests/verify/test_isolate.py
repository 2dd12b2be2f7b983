"""Which tries follow from simulated clusters, what is named, and which set works."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as some

from gpu_node.verify.isolate import Found, Members, Tried, Worked
from tests.examples import examples

CASES = yaml.safe_load(Path(__file__).with_name("clusters.yml").read_text())
QUICK = 0.01


@dataclass
class Cluster:
    """Nodes, the sets that fail wherever they are in one, and how much longer others take.

    `once` takes longer in its first try alone; `models` are devices of nodes. `products` and
    `copies` are the speeds of a node's ranks, beside 1; `busy` divides those of its first try.
    """

    nodes: list[str]
    fails: list[list[str]] = field(default_factory=list)
    slow: dict[str, float] = field(default_factory=dict)
    once: dict[str, float] = field(default_factory=dict)
    models: dict[str, str] = field(default_factory=dict)
    products: dict[str, list[float]] = field(default_factory=dict)
    copies: dict[str, list[float]] = field(default_factory=dict)
    busy: dict[str, float] = field(default_factory=dict)
    link: float | None = None
    rounds: list[list[Members]] = field(default_factory=list)

    def tried(self, members: Members, tries: list[Tried]) -> Tried:
        """Return how a try of some nodes ends."""
        if any({*each} <= {*members} for each in self.fails):
            return Tried(members, "fails")
        seconds = QUICK
        times = (
            self.slow
            if any(each.members == members for each in tries)
            else {**self.slow, **self.once}
        )
        for names, factor in times.items():
            if len(members) > 1 and {*names.split()} <= {*members}:
                seconds *= factor
        devices = ", ".join(self.models.get(name, "A100") for name in members)
        is_first = all(each.members != members for each in tries)
        factor = self.busy.get(words(members), 1) if is_first else 1
        worked = tuple(
            Worked(devices, product / factor, copy)
            for product, copy in zip(
                self.products.get(words(members), [1] * 4),
                self.copies.get(words(members), [1] * 4),
                strict=True,
            )
            if len(members) == 1
        )
        return Tried(members, "", seconds, 1e9 * QUICK / seconds, self.link, devices, worked)

    def found(self, most: float = float("inf")) -> Found:
        """Try what the search asks for, at most so many rounds."""
        tries: list[Tried] = []
        found = Found(self.nodes, tries)
        while len(self.rounds) < most and (sets := found.next()):
            self.rounds.append(sets)
            names = [name for members in sets for name in members]
            assert len(names) == len({*names}), "a node is in two sets of one round"
            tries += [self.tried(members, tries) for members in sets]
            found = Found(self.nodes, tries)
        return found


def words(members: Members) -> str:
    return " ".join(members)


@pytest.mark.parametrize("name", CASES)
def test_a_cluster(name: str) -> None:
    """The sets that are named, with why, the set that works, and after how many rounds."""
    case = dict(CASES[name])
    expected = {key: case.pop(key) for key in ("named", "works", "rounds") if key in case}
    most = case.pop("time", float("inf"))
    cluster = Cluster(
        case.pop("nodes").split(), [each.split() for each in case.pop("fails", ())], **case
    )
    found = cluster.found(most)
    named = {words(each.members): each.why for each in found.named()}
    assert (named, words(found.working())) == (expected["named"] or {}, expected["works"] or "")
    assert len(cluster.rounds) == expected.get("rounds", len(cluster.rounds))


NAMES = list("abcdefgh")
SETS = some.lists(some.sets(some.sampled_from(NAMES), min_size=1, max_size=4), max_size=6)


@given(some.integers(1, 8), SETS, some.integers(0, 12))
@settings(max_examples=examples(500))
def test_what_is_named_explains_all(count: int, fails: list[set[str]], most: int) -> None:
    """A failed try has a named set, or is part of one; no set that works has one that fails."""
    names = NAMES[:count]
    cluster = Cluster(names, [sorted(each) for each in fails if each <= {*names}])
    found = cluster.found(most)
    named = [{*each.members} for each in found.named()]
    for members, why in found.ends.items():
        assert not why or any(each <= {*members} or {*members} <= each for each in named)
    assert bool(named) == any(found.ends.values())
    assert not any({*each} <= {*found.working()} for each in cluster.fails)


@given(some.integers(2, 8), some.data())
@settings(max_examples=examples(200))
def test_a_sound_set_is_never_named(count: int, data: some.DataObject) -> None:
    """However its times vary between half and the double of one another, or are longer once."""
    names = NAMES[:count]
    factor = some.floats(1, 1.99)
    slow = {words(pair): data.draw(factor) for pair in combinations(names, 2)}
    cluster = Cluster(names, slow=slow)
    cluster.once = {words(pair): data.draw(some.floats(1, 50)) for pair in combinations(names, 2)}
    cluster.busy = {name: data.draw(some.floats(1, 50)) for name in names}
    cluster.products = {name: [data.draw(factor) for _ in range(4)] for name in names}
    found = cluster.found()
    assert (found.named(), found.working()) == ([], tuple(names))


@given(some.integers(3, 40))
def test_rounds_have_each_pair_once(count: int) -> None:
    """In one round less than there are nodes, or as many where their number is odd."""
    names = [f"n{number:02}" for number in range(count)]
    cluster = Cluster(names)
    cluster.found()
    pairs = [pair for sets in cluster.rounds[2:] for pair in sets]
    assert sorted(pairs) == sorted(combinations(names, 2))
    assert len(cluster.rounds) - 2 == count - 1 + count % 2

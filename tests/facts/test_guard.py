"""Guard: of nodes that are judged together, the one whose answer breaks that is found."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations

import pytest

from gpu_node.facts.probe.guard import beside, culprits

Numbers = dict[str, int]
HEALTHY = {"a": 1, "b": 2, "c": 3}


def _sum(nodes: Numbers) -> int:
    """A judgement that a 0 breaks beside any other node, and a negative number also alone."""
    if any(each < 0 for each in nodes.values()):
        raise ValueError("negative")
    if any(first * second == 0 for first, second in combinations(nodes.values(), 2)):
        raise ValueError("a zero")
    return sum(nodes.values())


@pytest.mark.parametrize(
    ("nodes", "blamed"),
    [
        ({}, set()),
        ({"x": -1}, {"x"}),
        ({"x": 0}, set()),
        ({"x": 0, **HEALTHY}, {"x"}),
        ({**HEALTHY, "x": 0}, {"x"}),
        ({**HEALTHY, "x": -1}, {"x"}),
        ({"x": 0, **HEALTHY, "y": 0}, {"x", "y"}),
        ({"x": 0, **HEALTHY, "y": -1}, {"x", "y"}),
        ({"x": 0, "y": 1}, {"x", "y"}),
    ],
    ids=str,
)
def test_who_breaks_a_judgement_is_left_out_of_it(nodes: Numbers, blamed: set[str]) -> None:
    """The others are judged as they would be without it; where two fail together it is both."""
    result, reasons = beside(_sum, nodes)
    assert set(reasons) == blamed
    assert result == sum(each for name, each in nodes.items() if name not in blamed)


def test_the_reason_is_the_errors_own_words() -> None:
    """A person has to find out what that node answered."""
    assert beside(_sum, {**HEALTHY, "x": -1})[1] == {"x": "ValueError: negative"}
    assert beside(_sum, {"x": 0, "y": 1})[1]["y"] == "ValueError: a zero, beside x"


def test_where_it_takes_three_each_is_left_out_in_turn() -> None:
    """No pair of them fails."""

    def judge(names: tuple[str, ...]) -> None:
        assert not ("x" in names and len(names) > 2)

    assert set(culprits(judge, "abcx")) == {"x"}


@pytest.mark.parametrize("judge", [lambda nodes: 1 / 0, lambda nodes: nodes["z"]])
def test_a_judgement_that_always_fails_is_about_every_node(
    judge: Callable[[Numbers], object],
) -> None:
    """And it ends."""
    result, reasons = beside(judge, HEALTHY)
    assert result is None
    assert set(reasons) == set(HEALTHY)


MANY = {f"n{number:03}": number + 1 for number in range(400)}


@pytest.mark.parametrize(
    ("others", "blamed"),
    [
        ({"x": -1}, {"x"}),
        ({"x": 0}, {"x"}),
        ({"x": 0, "y": 0}, {"x", "y"}),
        ({"x": 0, "y": -1, "z": -5}, {"x", "y", "z"}),
    ],
    ids=str,
)
@pytest.mark.parametrize("at", [0, 200, 400])
def test_few_judgements_find_it_among_many(others: Numbers, blamed: set[str], at: int) -> None:
    """A node of 400 that breaks them beside any other one costs no 80,000 judgements."""
    items = list(MANY.items())
    nodes = dict([*items[:at], *others.items(), *items[at:]])
    asked = []

    def judge(names: tuple[str, ...]) -> None:
        asked.append(names)
        values = [nodes[name] for name in names]
        if any(each < 0 for each in values) or (0 in values and len(values) > 1):
            raise ValueError(names[0])

    assert set(culprits(judge, nodes)) == blamed
    assert len(asked) < 500 * len(blamed)

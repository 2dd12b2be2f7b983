"""Of nodes that are judged together: the one whose answer breaks that, or all of them."""

from __future__ import annotations

import pytest

from gpu_node.facts.probe.bounds import breaking

HEALTHY = {"a": 1, "b": 2, "c": 3}


def _blamed(nodes: dict[str, int]) -> dict[str, str]:
    """Judge by a rule that a 0 breaks beside any other node, and a negative number also alone."""

    def judge(names: tuple[str, ...]) -> None:
        values = [nodes[name] for name in names]
        if any(each < 0 for each in values):
            raise ValueError("negative")
        if 0 in values and len(values) > 1:
            raise ValueError("a zero")

    return breaking(judge, nodes)


@pytest.mark.parametrize(
    ("nodes", "blamed"),
    [
        ({}, set()),
        (HEALTHY, set()),
        ({"x": -1}, {"x"}),
        ({"x": 0}, set()),
        ({"x": 0, **HEALTHY}, {"x"}),
        ({**HEALTHY, "x": -1}, {"x"}),
        ({"x": 0, "y": 1}, {"x", "y"}),
        ({"x": 0, **HEALTHY, "y": -1}, {"x", "y", *HEALTHY}),
    ],
    ids=str,
)
def test_who_breaks_a_judgement(nodes: dict[str, int], blamed: set[str]) -> None:
    """Where two break it, leaving out one of them does not help: then it is about all."""
    assert set(_blamed(nodes)) == blamed


def test_the_reason_is_the_errors_own_words() -> None:
    """A person has to find out what that node answered."""
    assert _blamed({**HEALTHY, "x": -1}) == {"x": "ValueError: negative"}


def test_a_judgement_that_always_fails_is_about_every_node() -> None:
    """It is an error of the rule's alone."""
    assert set(breaking(lambda names: 1 / 0, HEALTHY)) == set(HEALTHY)


@pytest.mark.parametrize("at", [0, 200, 400])
def test_one_judgement_a_node_finds_it(at: int) -> None:
    """Not one for each pair."""
    names = [f"n{number}" for number in range(400)]
    names.insert(at, "x")
    asked = []

    def judge(names: tuple[str, ...]) -> None:
        asked.append(names)
        assert "x" not in names

    assert set(breaking(judge, names)) == {"x"}
    assert len(asked) == len(names) + 1

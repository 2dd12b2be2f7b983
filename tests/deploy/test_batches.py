"""Batches of nodes: their size, and which nodes come first."""

from __future__ import annotations

import pytest

from gpu_node.deploy.deployment import batches, size_of

MODELS = {"a1": "A100", "a2": "A100", "v1": "V100", "a3": "A100", "v2": "V100", "x": ""}


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        (1, [["a1"], ["v1"], ["x"], ["a2"], ["a3"], ["v2"]]),
        (2, [["a1", "v1"], ["x", "a2"], ["a3", "v2"]]),
        (4, [["a1", "v1", "x", "a2"], ["a3", "v2"]]),
        (9, [["a1", "v1", "x", "a2", "a3", "v2"]]),
    ],
)
def test_one_node_of_each_model_first(size: int, expected: list[list[str]]) -> None:
    """Then the others in their order; each node is in one batch."""
    assert [list(batch) for batch in batches(MODELS, size)] == expected


def test_no_nodes() -> None:
    assert batches({}, 3) == []


@pytest.mark.parametrize(
    ("word", "nodes", "size"),
    [("1", 50, 1), ("7", 3, 7), ("25%", 50, 12), ("10%", 3, 1), ("100%", 3, 3), ("1%", 1, 1)],
)
def test_a_number_or_a_share(word: str, nodes: int, size: int) -> None:
    """A share is rounded down, and is one node at least."""
    assert size_of(word, nodes) == size


@pytest.mark.parametrize("word", ["", "0", "0%", "101%", "-1", "1.5", "half", "1 %", "٣", "9" * 9])
def test_what_is_no_size(word: str) -> None:
    with pytest.raises(ValueError, match="allowed: a number of nodes, such as 2, or a share"):
        size_of(word, 3)

"""A workspace that goes to eight nodes whose lines are equally slow: real copies, by a deploy."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bench import copies
from bench.measure.run import Failed
from bench.nodes.lines import SOURCE, prepared

pytestmark = pytest.mark.slow

AT_MOST = 4.5


def test_a_tree_that_is_not_whole_does_not_count(tmp_path: Path) -> None:
    """The seconds are those from the first file to the last one, of all nodes."""
    lines = prepared(tmp_path, 2)
    for each in lines.hosts:
        (lines.tree_of(each.name) / "a").write_bytes(b"1")
    assert copies.seconds(lines) < 1
    (lines.tree_of("node-002") / "a").write_bytes(b"2")
    with pytest.raises(Failed, match="not all of the tree is on node-002"):
        copies.seconds(lines)


def test_eight_nodes_take_less_than_five_times_as_long_as_one(tmp_path: Path) -> None:
    """Each node that has all of it sends it on: the source alone would take eight times as long."""
    one = copies.copied(tmp_path / "one", 1)
    many = copies.copied(tmp_path / "many", 8)
    source = copies.files(many, SOURCE)
    assert len(source) > 20
    for each in many.hosts[1:]:
        tree = many.tree_of(each.name)
        assert sorted(os.listdir(tree)) == sorted(source)
        assert all((tree / name).read_bytes() == content for name, content in source.items())
    took = copies.seconds(many), copies.seconds(one)
    print(f"\neight {took[0]:.1f} s, one {took[1]:.1f} s: {took[0] / took[1]:.2f} times")
    assert took[1] > 8  # the line is as slow as it has to be
    assert took[0] <= AT_MOST * took[1]

"""Names of nodes as ranges."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_node.drift.ranges import ranges


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        (["a100-01"], "a100-01"),
        (["a100-01", "a100-02"], "a100-[01-02]"),
        ([f"a100-{number:02}" for number in range(1, 21)], "a100-[01-20]"),
        (["a100-01", "a100-02", "a100-07"], "a100-[01-02,07]"),
        (["a100-07", "a100-01", "a100-02"], "a100-[01-02,07]"),
        (["a100-01", "v100-01"], "a100-01, v100-01"),
        (["n9", "n10"], "n9, n10"),
        (["n9.lab", "n8.lab", "n10.lab"], "n[8-9].lab, n10.lab"),
        (["gpu", "10.0.0.1", "10.0.0.2"], "gpu, 10.0.0.[1-2]"),
        (["rack1-n1", "rack1-n2", "rack2-n1"], "rack1-n[1-2], rack2-n1"),
        (["n" + "1" * 10, "n" + "1" * 9 + "2"], "n1111111111, n1111111112"),
        ([], ""),
    ],
)
def test_names(names: list[str], shown: str) -> None:
    assert ranges(names) == shown


def test_all_of_several() -> None:
    """One node alone keeps its name."""
    assert ranges(["b", "a"], ["a", "b"]) == "all"
    assert ranges(["a"], ["a", "b"]) == "a"
    assert ranges(["a"], ["a"]) == "a"


def _spelled_out(shown: str) -> list[str]:
    names = []
    for word in shown.split(", "):
        match = re.fullmatch(r"(.*)\[([\d,-]+)\](\D*)", word)
        if match is None:
            names.append(word)
            continue
        for span in match[2].split(","):
            first, _, last = span.partition("-")
            width = len(first)
            numbers = range(int(first), int(last or first) + 1)
            names += [f"{match[1]}{number:0{width}}{match[3]}" for number in numbers]
    return names


@given(st.lists(st.from_regex(r"[a-c]{0,2}-?[0-9]{1,3}(\.lab)?", fullmatch=True), min_size=1))
def test_no_name_is_lost_or_made_up(names: list[str]) -> None:
    assert sorted(_spelled_out(ranges(names))) == sorted(dict.fromkeys(names))

"""Quantities as a report writes them, and which limit is enough."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_node.drift.units import at_least, limit, size
from gpu_node.facts.limits.state import UNITS, Limit

FACTORS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
SIZES = {
    0: "0 B",
    1: "1 B",
    1023: "1023 B",
    1024: "1K",
    1536: "1.5K",
    (1 << 20) - 1: "1023.9K",
    1 << 20: "1M",
    64 << 20: "64M",
    (8 << 30) - 1: "7.9G",
    8 << 30: "8G",
    1 << 40: "1T",
    1 << 50: "1024T",
}
ENOUGH: list[tuple[Limit, Limit, bool]] = [
    (1024, 1024, True),
    (1025, 1024, True),
    (1023, 1024, False),
    ("unlimited", 1024, True),
    (1 << 63, "unlimited", False),
    ("unlimited", "unlimited", True),
]


@pytest.mark.parametrize("count", SIZES)
def test_a_size_as_people_write_it(count: int) -> None:
    """The largest unit, and one decimal at most."""
    assert size(count) == SIZES[count]


@given(st.integers(0, 1 << 52))
def test_a_size_never_looks_like_more_than_it_is(count: int) -> None:
    """What is a byte short of 8G is not written 8G; nothing loses more than a tenth of its unit."""
    text = size(count)
    factor = FACTORS.get(text[-1], 1)
    shown = float(text.rstrip("KMGT B")) * factor
    assert shown <= count < shown + factor / 10 + 1


@pytest.mark.parametrize(("found", "wanted", "enough"), ENOUGH)
def test_whether_a_limit_is_enough(found: Limit, wanted: Limit, enough: bool) -> None:
    """Unlimited is above every number and only it is as much as unlimited."""
    assert at_least(found, wanted) is enough


def test_a_limit_as_people_write_it() -> None:
    """Bytes have a unit, files are counted."""
    assert [limit(65536, "memlock"), limit(65536, "nofile")] == ["64K", "65536"]
    assert {limit("unlimited", item) for item in UNITS} == {"unlimited"}

"""Releases are ordered by their numbers, in one place for all rooms."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gpu_node.inventories.versions import numbers

ROOT = Path(__file__).parents[2]
ROOMS = ("cli", "deploy", "diagnose", "drift", "history", "inventories", "onboarding", "verify")
# What another order of versions begins with: a comprehension of their parts, or a list of digits.
ANOTHER = re.compile(r"""tuple\((map\(int,|-?int\().*(split\("\."\)|findall)|key=LooseVersion""")


@pytest.mark.parametrize(
    ("version", "found"),
    [
        ("535.154.05", (535, 154, 5)),
        ("2.18.1-1+cuda12.1", (2, 18, 1)),
        ("2.10.0a0+git1234", (2, 10, 0)),
        ("22.04", (22, 4)),
        ("3.1.2", (3, 1, 2)),
        ("<=2.3.5", ()),
        ("sid", ()),
        ("", ()),
        ("9" * 5000, (999_999_999,)),
    ],
)
def test_the_numbers_that_a_version_begins_with(version: str, found: tuple[int, ...]) -> None:
    """A text of a node's of any length is no reason to fail."""
    assert numbers(version) == found


def test_ten_comes_after_nine() -> None:
    ordered = ["2.9", "2.9.1", "2.10.0", "13.0"]
    assert sorted(reversed(ordered), key=numbers) == ordered


def test_no_room_has_another_order() -> None:
    files = [file for room in ROOMS for file in sorted((ROOT / room).rglob("*.py"))]
    assert len(files) > 100
    own = ROOT / "inventories" / "versions.py"
    found = [file for file in files if file != own and ANOTHER.search(file.read_text("utf-8"))]
    assert [str(file.relative_to(ROOT)) for file in found] == []

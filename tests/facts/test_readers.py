"""The generic readers of answers: what they read, and what no honest node sends."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_node.facts.probe.base import State, taken
from gpu_node.facts.probe.protocol import Reading, Readings
from gpu_node.facts.probe.readers import Columns, by_word, line, lines, number, pairs, parted


class Disk(State):
    """A model with a field of each type that a column may have."""

    name: str
    size: int
    used: bool = False
    free: int | None = None
    label: str | None = None
    flags: tuple[str, ...] = ()


DISKS = Columns(Disk, "name size used free label flags")
NAMED = Columns(Disk, "size name...", " ", name=str.upper)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ()),
        ("sda\t5", (Disk(name="sda", size=5),)),
        ("\nsda\t-5\tyes\t-\t\n", (Disk(name="sda", size=-5, used=True),)),
        (
            "sda\t5\tno\t7\tdata disk\tro noexec",
            (Disk(name="sda", size=5, free=7, label="data disk", flags=("ro", "noexec")),),
        ),
    ],
)
def test_columns(text: str, expected: tuple[Disk, ...]) -> None:
    """Each field is read by its type, and the last ones may be missing."""
    assert DISKS(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "sda",
        "sda\t",
        "sda\t5.0",
        "sda\t1_000",
        "sda\t+5",
        "sda\t\u0665",
        f"sda\t{2**64}",
        f"sda\t{'9' * 5000}",
        "sda\t5\tmaybe",
        "sda\t5\tno\t7\tx\tro\tmore",
    ],
)
def test_no_honest_columns(text: str) -> None:
    """Another number, another word or another column is an error, and no value."""
    readings = Readings({"a.disks": Reading(0, text)})
    assert readings.take("a.disks", DISKS) is None
    assert [each.section for each in readings.unread] == ["a.disks"]


def test_the_rest_of_a_line() -> None:
    """The last column may have the separator, and a check reads it in another way."""
    assert NAMED("5 my disk") == (Disk(name="MY DISK", size=5),)
    assert NAMED.row("5 a", used=True) == Disk(name="A", size=5, used=True)


def test_lines_by_their_first_word() -> None:
    """Only a newline ends a line; a word alone has nothing after it."""
    text = "on\nfile /a b\nfile /c\x0c\n\n"
    assert by_word(text) == {"on": [""], "file": ["/a b", "/c\x0c"]}
    assert pairs(text) == {"on": "", "file": "/c\x0c"}
    assert parted(text, "on", "x") == ("on", "file /a b\nfile /c\x0c\n")
    assert lines("a\n\nb\n") == ("a", "", "b")
    with pytest.raises(ValueError, match=r"not understood: 'on'"):
        by_word(text, words="file")


@pytest.mark.parametrize(
    ("read", "text", "expected"),
    [(line, " a b\n", "a b"), (line, "\n", None), (number, " 12\n", 12), (number, "1 2", None)],
)
def test_one_line(read: Any, text: str, expected: object) -> None:
    """A line is not empty, and a number nothing else."""
    assert Readings({"a.b": Reading(0, text)}).take("a.b", read) == expected


def test_the_fields_of_sections() -> None:
    """One that was not asked gives none, and one that cannot be read gives None."""
    two = ("name size", lambda text: tuple(text.split()))
    parsers = {"a.one": two, "a.two": ("flags", lines), "a.three": ("label", line)}
    readings = Readings({"a.one": Reading(1, "x"), "a.two": Reading(0, "ro")})
    assert taken(readings, parsers) == {"name": None, "size": None, "flags": ("ro",)}
    readings.sections["a.one"] = Reading(0, "sda 5")
    assert taken(readings, parsers) == {"name": "sda", "size": "5", "flags": ("ro",)}

"""What a node says can neither steer a terminal nor hide in it."""

from __future__ import annotations

import pytest

from drift.report.visible import visible


@pytest.mark.parametrize(
    "plain", ["", "CentOS Linux 7 (Core)", "Größe ✗ 日本 🙂", r"C:\x1b", "[red]"]
)
def test_what_can_be_seen_stays(plain: str) -> None:
    """The control."""
    assert visible(plain) == plain


@pytest.mark.parametrize(
    ("hidden", "shown"),
    [
        ("\x00", r"\x00"),
        ("\x07", r"\x07"),
        ("\x08", r"\x08"),
        ("\t", r"\t"),
        ("\n", r"\n"),
        ("\r", r"\r"),
        ("\x1b]0;title\x07", r"\x1b]0;title\x07"),
        ("\x1f", r"\x1f"),
        ("\x7f", r"\x7f"),
        ("\x80", r"\x80"),
        ("\x85", r"\x85"),
        ("\x9b31m", r"\x9b31m"),
        ("\u061c", r"\u061c"),
        ("\u200e\u200f", r"\u200e\u200f"),
        ("\u2028\u2029", r"\u2028\u2029"),
        ("\u202a\u202e", r"\u202a\u202e"),
        ("\u2066\u2069", r"\u2066\u2069"),
        ("\udcff", r"\udcff"),
    ],
)
def test_what_cannot_be_seen_is_written_out(hidden: str, shown: str) -> None:
    """Controls, what turns the direction of writing, and what no encoding takes."""
    assert visible(f"a{hidden}b") == f"a{shown}b"

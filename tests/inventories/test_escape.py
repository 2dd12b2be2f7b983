"""What a node says can neither steer a terminal nor hide in it."""

from __future__ import annotations

import ast
import json
import sys
import unicodedata

import pytest

from gpu_node.inventories.escape import LONGEST, visible, visible_json, visible_lines
from tests.test_rooms import MODULES


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


def test_every_character_without_a_shape() -> None:
    """Controls, formats, surrogates and separators of lines, as Unicode has them by now."""
    unseen = {"Cc", "Cf", "Cs", "Zl", "Zp"}
    left = [
        hex(code)
        for code in range(sys.maxunicode + 1)
        if unicodedata.category(chr(code)) in unseen and visible(chr(code)) == chr(code)
    ]
    assert left == []


def test_a_long_text_is_cut() -> None:
    """What is left out is counted."""
    assert visible("x" * (LONGEST + 5)) == "x" * LONGEST + "... (5 more characters)"
    assert visible("\x1b" * 3, longest=2) == r"\x1b\x1b... (1 more characters)"
    assert visible_lines("a\nb\x07\nc\nd", most=2) == "a\nb\\x07\n... (2 more lines)"


@pytest.mark.parametrize(
    "text", ["\x7f\x9b31m\u202e\u200b\ufeff", "\U000e0041", 'quote " back \\ \x1b \n', "日本 🙂"]
)
def test_json_means_what_it_did(text: str) -> None:
    """Escapes in its strings change nothing of them."""
    shown = visible_json(json.dumps({text: text}, indent=2, ensure_ascii=False))
    assert json.loads(shown) == {text: text}
    assert all(visible(line) == line for line in shown.split("\n"))


def test_json_has_no_half_surrogates() -> None:
    """Many parsers refuse them."""
    shown = visible_json(json.dumps("/data/\udcff", ensure_ascii=False))
    assert json.loads(shown) == r"/data/\udcff"


def test_no_console_reads_markup() -> None:
    """Brackets and colons from outside are text, in every console that we make."""
    consoles = [
        (str(path), {each.arg: ast.unparse(each.value) for each in node.keywords})
        for path in MODULES
        if "lab" not in path.parts
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "Console"
    ]
    wanted = {"markup": "False", "emoji": "False"}.items()
    assert consoles and [each for each in consoles if not wanted <= each[1].items()] == []

"""No code that reads what nodes send uses `splitlines`: a user's form feed would end a line."""

from __future__ import annotations

import ast

import pytest

from gpu_node.facts.probe.lines import decoded, lines_of
from tests.patterns import REPOSITORY, sources
from tests.strings import tree

ROOMS = ("deploy", "drift", "facts", "history", "onboarding", "verify")


def uses(module: ast.Module) -> list[int]:
    """Return the lines on which a module uses it."""
    nodes = ast.walk(module)
    return [each.lineno for each in nodes if isinstance(each, ast.Attribute) and _is(each.attr)]


def _is(name: str) -> bool:
    return name == "splitlines"


def test_only_a_newline_ends_a_line() -> None:
    """`lines_of` takes its place."""
    found = [
        f"{name}:{line}" for name, _ in sources(ROOMS) for line in uses(tree(REPOSITORY / name))
    ]
    assert found == []


def test_what_is_used_is_found() -> None:
    """In a call, and as a function for `map`."""
    assert uses(ast.parse("x = 1\ny = text.splitlines()\nz = map(str.splitlines, y)")) == [2, 3]


@pytest.mark.parametrize(("text", "lines"), [("", []), ("\n", [""]), ("a", ["a"]), ("a\n", ["a"])])
def test_lines_of_a_text(text: str, lines: list[str]) -> None:
    """As `splitlines` has them."""
    assert lines_of(text) == lines == text.splitlines()


@pytest.mark.parametrize("end", ["\f", "\v", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029"])
def test_other_ends_of_a_line(end: str) -> None:
    """They end no line here, and a section's text shows them."""
    assert lines_of(f"a{end}b\n") == [f"a{end}b"]
    shown = decoded(f"a{end}b".encode())
    assert shown.splitlines() == shown.split() == [shown] and shown.isascii()


def test_white_space_that_is_not_ascii() -> None:
    """`str.split` would make two fields of one; words of other scripts stay."""
    every = "".join(chr(each) for each in range(0x10000) if chr(each).isspace())
    assert {*"".join(decoded(every.encode()).split("\\"))} & {*every} == {*" \t\n\r"}
    assert decoded("größe 显存".encode()) == "größe 显存"
    assert decoded(b"a\xffb\xed\xa0\x80") == r"a\xffb\xed\xa0\x80"

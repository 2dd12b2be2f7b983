"""Globs: as fnmatch has them, in linear time, whatever a node writes."""

from __future__ import annotations

import ast
import time
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from gpu_node.facts.globs import matches, matches_any
from tests.examples import examples

REPOSITORY = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("pattern", "name", "fits"),
    [
        ("kernel*", "kernel-core", True),
        ("kernel*", "akernel", False),
        ("*nvidia*", "kmod-nvidia", True),
        ("libnccl?", "libnccl2", True),
        ("libnccl?", "libnccl", False),
        ("libnccl[23]", "libnccl2", True),
        ("libnccl[!23]", "libnccl2", False),
        ("libnccl[0-9]", "libnccl2", True),
        ("libnccl[", "libnccl[", True),
        ("libnccl.", "libnccl2", False),
        ("[]]", "]", True),
        ("[!]]", "]", False),
        ("", "", True),
        ("**", "", True),
        ("", "a", False),
    ],
)
def test_a_pattern_means_what_a_shell_takes_it_for(pattern: str, name: str, fits: bool) -> None:
    assert matches(name, pattern) is fits
    assert fnmatchcase(name, pattern) is fits


@given(some.text("abc", max_size=8), some.text("ab*?", max_size=12))
@settings(max_examples=examples(2000))
def test_stars_and_marks_are_as_in_fnmatch(name: str, pattern: str) -> None:
    assert matches(name, pattern) is fnmatchcase(name, pattern)


@given(some.text("abc]-!", max_size=3), some.text("ab*?[]!-", max_size=8))
@settings(max_examples=examples(2000))
def test_any_pattern_has_an_answer(name: str, pattern: str) -> None:
    assert matches(name, pattern) in (True, False)


def test_a_pattern_that_backtracks_ends() -> None:
    """As a regular expression it would not."""
    begun = time.process_time()
    assert not matches("a" * 1000, "*a" * 200 + "b")
    assert not matches_any("a" * 30, ["*" * 100_000 + "b", "[" * 10_000])
    assert time.process_time() - begun < 5


# It makes a pattern of the markers that it is given: each place that gives some is tried instead.
MARKERS = "facts/probe/managed_block.py"
# What is compiled or matched from text: ours, or an inventory's.
OURS = {
    "facts/ask/gather.py": {"fnmatch"},  # --limit
    "inventories/pyinfra_groups.py": {"fnmatch"},  # the inventory's own words
}


@pytest.mark.parametrize(
    "room", ["facts", "drift", "deploy", "verify", "onboarding", "inventories"]
)
def test_no_pattern_of_a_node_is_compiled(room: str) -> None:
    """A regular expression is a literal of ours, or every other text in it is escaped."""
    for path in sorted((REPOSITORY / room).rglob("*.py")):
        where = str(path.relative_to(REPOSITORY))
        if where.startswith("facts/nccl/on_node/"):  # it runs on the nodes
            continue
        tree = ast.parse(path.read_text())
        for node in ast.walk(tree):
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                names = {alias.name for alias in node.names} | {getattr(node, "module", "")}
                assert "fnmatch" not in names or where in OURS, where
            if isinstance(node, ast.Call) and _is_markers(node.func):
                given = [*node.args, *(each.value for each in node.keywords)]
                assert all(_is_ours(each, tree) for each in given), f"{where}:{node.lineno}"
            if isinstance(node, ast.Call) and _is_expression(node.func) and where != MARKERS:
                assert _is_ours(node.args[0], tree), f"{where}:{node.lineno}"


def _is_markers(called: ast.expr) -> bool:
    return isinstance(called, ast.Name) and called.id == "Markers"


def _is_expression(called: ast.expr) -> bool:
    names = ("compile", "match", "fullmatch", "search", "findall", "finditer", "sub", "split")
    return (
        isinstance(called, ast.Attribute)
        and isinstance(called.value, ast.Name)
        and called.value.id == "re"
        and called.attr in names
    )


def _is_ours(pattern: ast.expr, tree: ast.Module) -> bool:
    """Whether a pattern is a literal, one of our constants, or text with what is escaped in it."""
    if isinstance(pattern, ast.Constant):
        return True
    if isinstance(pattern, ast.JoinedStr):
        parts = [each.value for each in pattern.values if isinstance(each, ast.FormattedValue)]
        return all(_is_escaped(each) or _is_ours(each, tree) for each in parts)
    if isinstance(pattern, ast.BinOp):
        return _is_ours(pattern.left, tree) and _is_ours(pattern.right, tree)
    if isinstance(pattern, ast.Subscript):
        return _is_ours(pattern.value, tree)
    if isinstance(pattern, ast.Call):  # '|'.join(SHAPES)
        is_join = isinstance(pattern.func, ast.Attribute) and pattern.func.attr == "join"
        return is_join and all(_is_ours(each, tree) for each in pattern.args)
    if isinstance(pattern, ast.Attribute):  # a field of a record of ours
        return pattern.attr == "pattern"
    return isinstance(pattern, ast.Name) and (
        pattern.id.lstrip("_").isupper() or pattern.id in ("is_name", "wild", "words", "pattern")
    )


def _is_escaped(text: ast.expr) -> bool:
    return (
        isinstance(text, ast.Call)
        and isinstance(text.func, ast.Attribute)
        and text.func.attr == "escape"
    )

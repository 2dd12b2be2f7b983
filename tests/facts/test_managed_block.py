"""Blocks in a user's file: replaced and removed whole, every other byte stays."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_node.facts.env.start_files import BLOCKS
from gpu_node.facts.probe.managed_block import NODES, Markers, outside
from tests.examples import examples

OLD, NEW = NODES.block("old\n"), NODES.block("new\n")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        pytest.param("", NEW, id="an empty file"),
        pytest.param("a\r\n\xff", f"{NEW}a\r\n\xff", id="no block: at the top"),
        pytest.param(f"a\n{OLD}b", f"a\n{NEW}b", id="in place of the old one"),
        pytest.param(f"a\n{OLD}b\n{OLD}c\n", f"a\n{NEW}b\nc\n", id="one of two"),
        pytest.param(f"{OLD.rstrip()}", NEW, id="without a newline at its end"),
    ],
)
def test_a_block_is_replaced(text: str, wanted: str) -> None:
    """The new block is there once; without lines it is removed."""
    assert NODES.replace(text, NEW) == wanted
    assert NODES.replace(wanted, NEW) == wanted
    assert NODES.replace(text, NODES.block("")) == wanted.replace(NEW, "") == NODES.remove(wanted)


@pytest.mark.parametrize("markers", [NODES, BLOCKS])
def test_a_block_without_an_end(markers: Markers) -> None:
    """Which of its lines are ours is unknown: nothing is found."""
    text = f"a\n{markers.begin}\nexport A=1\n"
    assert markers.is_unclosed(text) and not markers.find(text)
    assert not markers.is_unclosed(f"{text}{markers.end}\n")


def test_a_block_with_a_line_that_is_not_ours() -> None:
    """A user may have copied a marker line of a start file: what follows is the user's."""
    assert not BLOCKS.find(f"{BLOCKS.begin}\nalias l=ls\n{BLOCKS.end}\n")
    (found,) = BLOCKS.find(f"{BLOCKS.begin}: edit that\nexport A=1\n{BLOCKS.end} x\nb\n")
    assert found.body == "export A=1\n"


def by_expression(markers: Markers, text: str) -> list[tuple[int, int, str]]:
    """Return place and body of the blocks by a regular expression: short, and quadratic."""
    rest = ".*" if markers.has_remark else ""
    begin, end = (f"{re.escape(each)}{rest}$" for each in (markers.begin, markers.end))
    ends = f"{begin}|{end}" if markers.has_remark else end
    inside = rf"(?!{ends})(?:{markers.line}).*\n"
    found = re.finditer(rf"(?m)^{begin}\n(?P<body>(?:{inside})*){end}(?:\n|\Z)", text)
    return [(each.start(), each.end(), each["body"]) for each in found]


LINES = ["export A=1", "alias l=ls", "# x", "", "\r", "a\x85", " # >>> gpu-node"]
MARKS = [f"{mark}{rest}" for each in (NODES, BLOCKS) for mark in (each.begin, each.end)
         for rest in ("", ": x", "\r")]  # fmt: skip


@pytest.mark.parametrize("markers", [NODES, BLOCKS])
@given(st.lists(st.sampled_from([*LINES, *MARKS]), max_size=12), st.sampled_from(["", "\n"]))
@settings(max_examples=examples(3000), deadline=None)
def test_blocks_are_those_of_an_expression(markers: Markers, lines: list[str], end: str) -> None:
    """Of any lines, whatever is missing, doubled or inside another block."""
    text = "\n".join(lines) + end
    found = markers.find(text)
    assert [(each.start, each.end, each.body) for each in found] == by_expression(markers, text)
    assert all(text[each.start : each.end] == each.text for each in found)
    assert "".join(outside(text, found)) == markers.remove(text)

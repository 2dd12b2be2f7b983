"""Blocks in a user's file: replaced and removed whole, every other byte stays."""

from __future__ import annotations

import pytest

from gpu_node.facts.env.start_files import BLOCKS
from gpu_node.facts.probe.managed_block import NODES, Markers

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

"""The table: it fits the console, says it all, and takes no orders from a node."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from drift.report import table
from drift.report.model import Seen
from tests.drift import states
from tests.drift.reports import FRESH, GONE, KINDS, THREE, drawn, report

SNAPSHOT = Path(__file__).with_name("table-80.txt")


def _many() -> dict[str, Seen]:
    return {f"gpu-{number:02}.cluster": states.seen(FRESH) for number in range(9)}


@pytest.mark.parametrize("width", [80, 160])
@pytest.mark.parametrize("nodes", [THREE, KINDS, _many()], ids=["three", "kinds", "many"])
def test_the_table_fits_and_says_it_all(nodes: dict[str, Seen], width: int) -> None:
    """No line is longer than the terminal; every node, rule, found and error is there."""
    text = drawn(nodes, width)
    assert max(map(len, text.splitlines())) <= width
    words = " ".join(text.split())
    for name, host in report(nodes).hosts.items():
        assert name in words
        for finding in host.findings:
            assert finding.rule in words
        assert host.error is None or host.error in words


def test_a_pipe_gets_no_escape_codes() -> None:
    """Colour is for terminals."""
    assert "\x1b" not in drawn(THREE, 80)


def test_a_terminal_gets_colour_and_the_same_words() -> None:
    """What colour says is said by a sign as well."""
    console = Console(file=io.StringIO(), width=80, force_terminal=True, color_system="standard")
    table.write(report(THREE), console)
    assert isinstance(console.file, io.StringIO)
    assert "\x1b[" in console.file.getvalue()
    assert f"64M {table.WRONG}" in drawn(THREE, 80)


def test_words_of_a_node_are_no_markup() -> None:
    """What a node says in brackets is printed, not taken for a style."""
    strange = {
        "toolchain": {"os": "[bold]OS[/bold]", "cmake": None},
        "unreadable": [{"area": "toolchain", "section": "toolchain.cmake", "reason": "[/red] :x:"}],
    }
    text = drawn({"n": states.seen(strange)}, 120)
    assert "[bold]OS[/bold]" in text
    assert "[/red] :x:" in text


def test_the_table_is_as_recorded() -> None:
    """A look at the whole; after a wanted change write the file anew from drawn(THREE, 80)."""
    lines = [line.rstrip() for line in drawn(THREE, 80).splitlines()]
    assert lines == SNAPSHOT.read_text().splitlines()


@pytest.mark.parametrize(
    ("nodes", "last"),
    [
        ({"n": KINDS["ok"]}, "1 node, 1 ok; findings: none"),
        ({"n": KINDS["ok"], "m": KINDS["ok"]}, "2 nodes, 2 ok; findings: none"),
        ({"n": KINDS["ok"], "m": GONE}, "2 nodes, 1 ok, 1 unreachable; findings: none"),
    ],
)
def test_a_report_without_findings_ends_with_its_summary(nodes: dict[str, Seen], last: str) -> None:
    """Nothing to repair is proposed, and the count of each status is said."""
    assert drawn(nodes, 80).splitlines()[-1].rstrip() == last


def test_what_only_hands_can_repair_is_not_proposed_to_the_deploy() -> None:
    """No line `repair: pyinfra ...` where it would repair nothing."""
    closed = {"shm": {"usage": {"size": 67108864}, "container": {"can_mount": False}}}
    text = drawn({"n": states.seen(closed)}, 80)
    assert "shm.container" in text
    assert "repair:" not in text
    assert "repair: pyinfra inventories/lab.py" in drawn({"n": KINDS["warning"]}, 80)

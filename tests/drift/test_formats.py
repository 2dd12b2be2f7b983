"""The formats of a report: each has its module, and writes text that ends with a newline."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from gpu_node.drift.report.formats import FORMATS, Page, parts
from tests.drift import reports, states


@pytest.mark.parametrize("form", FORMATS)
def test_a_format_writes_text(form: str) -> None:
    """It names each node and ends with a newline."""
    fresh, hangs = states.seen(reports.FRESH), states.seen(reports.HANGS)
    report = reports.report({"a100-01": fresh, "v100-01": hangs})
    written = "".join(parts(form, report, Page(Console(file=io.StringIO(), width=100))))
    assert "a100-01" in written and "v100-01" in written
    assert written.endswith("\n")


def test_a_format_on_a_terminal_is_styled() -> None:
    """The table alone; a file has plain lines."""
    report = reports.report({"a100-01": states.seen()})
    terminal = Console(file=io.StringIO(), width=100, force_terminal=True, color_system="256")
    assert "\x1b[" in "".join(parts("table", report, Page(terminal)))
    assert "\x1b[" not in "".join(parts("json", report, Page(terminal)))
    assert "\x1b[" not in "".join(
        parts("table", report, Page(Console(file=io.StringIO(), width=100)))
    )

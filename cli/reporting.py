"""Makes a report about nodes that were asked, and writes it in one of the formats."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path

import click

from gpu_node.cli.console import plain_console
from gpu_node.drift.report import formats
from gpu_node.drift.report.explained import UNREADABLE, in_order
from gpu_node.drift.report.model import Report, Seen, Tool, build
from gpu_node.facts.areas import AREAS
from gpu_node.inventories.atomic_write import replace
from gpu_node.inventories.errors import did_you_mean, reason, shown, worded

FILE_WIDTH = 160


def report_of(inventory: str, seen: dict[str, Seen]) -> Report:
    """Return the report about the nodes of an inventory that were asked."""
    tool = Tool(name="gpu-node", version=version("gpu-node"))
    now = datetime.now(timezone.utc).isoformat(timespec="seconds")
    return build(seen, tool, inventory, now)


def check_only(report: Report, words: Iterable[str]) -> None:
    """Refuse a word of --only that is no rule, no area and no node of the report."""
    known = [*(each.id for each in in_order()), *UNREADABLE, *AREAS, *report.hosts]
    for word in words:
        if word not in known:
            why = f"an unknown word{did_you_mean(word, known)}"
            allowed = "a rule, an area or a node of the report"
            raise click.UsageError(f"--only: {worded(shown(word), why, allowed, 'gpu-node rules')}")


def write(
    report: Report,
    form: str,
    output: str | None,
    full: bool = False,
    facts: bool = False,
    only: tuple[str, ...] = (),
) -> None:
    """Write a report in a format to the file `output`, or to stdout; the others are a Page's."""
    is_file = output is not None
    console = plain_console(
        file=io.StringIO() if is_file else sys.stdout, width=FILE_WIDTH if is_file else None
    )
    page = formats.Page(console, full, facts, only)
    text = formats.text(form, report, page)
    if output is not None:
        _save(text, output)
        return
    # Left to choose its stream, click writes UTF-8 where the encoding is ASCII.
    click.echo(text, file=sys.stdout, nl=False, color=console.is_terminal)


def _save(text: str, output: str) -> None:
    """Write a report; a plain file is replaced as a whole, so that no reader sees half of one."""
    try:
        target = Path(output).resolve() if output else Path(output)
        if target.is_file() or not target.exists():
            replace(target, text.encode(), 0o666)
        else:  # a pipe or a device is written into; a folder is an error
            target.write_text(text, encoding="utf-8")
    except OSError as error:
        problem = worded(reason(error), f"cannot write {output or repr(output)}", "a file")
        raise click.ClickException(f"--output: {problem}") from None

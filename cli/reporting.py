"""Writes a report in one of the formats, and refuses what it cannot be about."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Iterable

import click

from gpu_node.cli.output import save, unknown_word
from gpu_node.drift.report import formats
from gpu_node.drift.report.explained import UNREADABLE, in_order
from gpu_node.drift.report.view import View
from gpu_node.facts.areas import AREAS
from gpu_node.inventories.escape import visible

FILE_WIDTH = 100


def check_only(words: Iterable[str], nodes: Callable[[], Iterable[str]]) -> None:
    """Refuse a word of --only that is no rule, no area and none of the nodes of the report."""
    known = [*(each.id for each in in_order()), *UNREADABLE, *AREAS]
    others = [word for word in words if word not in known]
    if others:
        known += nodes()
    for word in others:
        if word not in known:
            raise unknown_word(word, known)


def _file_width() -> int:
    """Return the width of a report in a file: COLUMNS, as for a pipe."""
    given = os.environ.get("COLUMNS", "")
    return int(given) if given.isascii() and given.isdecimal() and len(given) < 6 else FILE_WIDTH


def write(
    view: View, form: str, output: str | None, full: bool = False, facts: bool = False
) -> None:
    """Write a report in a format to the file `output`, or to stdout; the others are a Page's."""
    is_file = output is not None
    console = formats.plain(
        file=io.StringIO() if is_file else sys.stdout, width=_file_width() if is_file else None
    )
    parts = formats.parts(form, view, formats.Page(console, full, facts))
    if output is not None:
        save(parts, output, for_all=form in formats.FOR_ALL)
        # cron mails what a command prints.
        if sys.stderr.isatty():
            click.echo(f"wrote {visible(output)}", err=True)
        return
    for part in parts:
        # Left to choose its stream, click writes UTF-8 where the encoding is ASCII.
        click.echo(part, file=sys.stdout, nl=False, color=console.is_terminal)

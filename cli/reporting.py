"""Makes a report about nodes that were asked, and writes it as a table or as JSON."""

from __future__ import annotations

import io
import os
import shutil
import sys
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path

import click
from rich.console import Console

from drift.report import json, table
from drift.report.model import Report, Seen, Tool, build

FILE_WIDTH = 160


def report_of(inventory: str, seen: dict[str, Seen]) -> Report:
    """Return the report about the nodes of an inventory that were asked."""
    tool = Tool(name="gpu-node", version=version("gpu-node"))
    now = datetime.now(timezone.utc).isoformat(timespec="seconds")
    return build(seen, tool, inventory, now)


def write(report: Report, form: str, output: str | None) -> None:
    """Write a report to the file `output`, or to stdout."""
    console = Console(file=sys.stdout)
    if output is None and form == "table" and console.is_terminal:
        table.write(report, console, _deploy())
        return
    width, encoding = (console.width, console.encoding) if output is None else (FILE_WIDTH, "utf-8")
    text = json.render(report, encoding) if form == "json" else _plain_table(report, width)
    # Left to choose its stream, click writes UTF-8 where the encoding is ASCII.
    click.echo(text, file=sys.stdout, nl=False) if output is None else _save(text, output)


def _plain_table(report: Report, width: int) -> str:
    """Return the table as plain lines, without the blanks that fill them on a terminal."""
    text = io.StringIO()
    table.write(report, Console(file=text, width=width), _deploy())
    return "".join(f"{line.rstrip()}\n" for line in text.getvalue().splitlines())


def _deploy() -> str:
    """Return the way from here to the deploy, beside us or installed; importing it would run it."""
    if Path(table.DEPLOY).is_file():
        return table.DEPLOY
    return os.path.relpath(Path(__file__).parents[1] / table.DEPLOY)


def _save(text: str, output: str) -> None:
    """Write a report; a plain file is replaced as a whole, so that nobody reads half of one."""
    try:
        target = Path(output).resolve() if output else Path(output)
        if target.is_file() or not target.exists():
            _replace(target, text)
        else:  # a pipe or a device is written into; a folder is an error
            target.write_text(text, encoding="utf-8")
    except OSError as error:
        reason = error.strerror
        raise click.ClickException(f"cannot write {output or repr(output)}: {reason}") from None


def _replace(target: Path, text: str) -> None:
    part = target.with_name(f".{target.name}.part")
    try:
        part.write_text(text, encoding="utf-8")
        if target.exists():
            shutil.copymode(target, part)
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)

"""`gpu-node drift`: probe every node once, judge it, write the report."""

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

from cli.asking import ask
from drift.report import json, table
from drift.report.model import Report, Seen, Tool, build

FILE_WIDTH = 160


@click.command()
@click.argument("inventory")
@click.option("--limit", multiple=True, metavar="X", help="A group or host (pattern).")
@click.option(
    "--format", "form", type=click.Choice(["table", "json"]), default="table", show_default=True
)
@click.option("-o", "--output", metavar="FILE", help="Write the report to FILE, not stdout.")
@click.option(
    "--deep",
    is_flag=True,
    help="Also compare the sha256 of each environment's libnccl with its RECORD. Reads 200 to 300 "
    "MB an environment: a second or two from a quick disk, up to three minutes from a slow one.",
)
def drift(inventory: str, limit: tuple[str, ...], form: str, output: str | None, deep: bool) -> int:
    """Read every node of INVENTORY and report what differs. Changes nothing.

    A value that could not be read is reported as unreadable, never left out.

    \b
    Exit status:  0 nothing differs   2 drift   1 could not tell (wins over 2)
    Examples:     gpu-node drift inventories/lab.py
                  gpu-node drift inventories/lab.py --limit v100-01 --format json
    """
    report = report_of(inventory, ask(inventory, limit, deep))
    _write(report, form, output)
    return report.exit_code()


def report_of(inventory: str, seen: dict[str, Seen]) -> Report:
    """Return the report about the nodes of an inventory that were asked."""
    tool = Tool(name="gpu-node", version=version("gpu-node"))
    now = datetime.now(timezone.utc).isoformat(timespec="seconds")
    return build(seen, tool, inventory, now)


def _write(report: Report, form: str, output: str | None) -> None:
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

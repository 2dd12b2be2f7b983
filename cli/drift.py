"""`gpu-node drift`: probe every node once, judge it, write the report."""

from __future__ import annotations

import io
import os
import shutil
import sys
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from cli.interrupt import at_once
from drift.report import json, table
from drift.report.model import Report, Seen, Tool, build
from facts.cluster import peers_of
from facts.gather import Answer, gather
from inventories.schema import InventoryError, NodeWanted

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
    _require_file(inventory)
    with at_once(), Console(stderr=True).status(f"Reading the nodes of {inventory}"):
        answers = gather(inventory, limit, deep)
    report = _report(inventory, answers)
    _write(report, form, output)
    return report.exit_code()


def _require_file(inventory: str) -> None:
    """Refuse a path to no file: pyinfra would take it for the name of a host."""
    looks_like_file = inventory.endswith((".py", ".yml", ".yaml")) or os.sep in inventory
    is_folder = not inventory or Path(inventory).is_dir()
    if is_folder or (looks_like_file and not Path(inventory).is_file()):
        raise click.UsageError(f"no such inventory file: {inventory}")
    if inventory.endswith((".yml", ".yaml")):
        raise click.UsageError(
            f"{inventory} is what an inventory reads; give the inventory itself, "
            f"{Path(inventory).with_suffix('.py')}"
        )


def _report(inventory: str, answers: dict[str, Answer]) -> Report:
    seen = {name: _seen(name, answer) for name, answer in answers.items()}
    tool = Tool(name="gpu-node", version=version("gpu-node"))
    now = datetime.now(timezone.utc).isoformat(timespec="seconds")
    return build(seen, tool, inventory, now)


def _seen(name: str, answer: Answer) -> Seen:
    try:
        wanted = NodeWanted.from_data(answer.data)
    except InventoryError as error:
        raise click.ClickException(f"{name}: {error}") from error
    reason = answer.error and _with_way_on(answer.error, answer.data)
    return Seen(wanted, answer.state, reason, answer.reached, peers_of(answer.data))


def _with_way_on(reason: str, data: dict[str, Any]) -> str:
    """Say what to do where a host key is unknown or has changed: nothing is ever accepted."""
    if "host key" not in reason.lower():
        return reason
    address, port = data.get("ssh_hostname"), data.get("ssh_port") or 22
    return (
        f"{reason} Compare the fingerprint that the node itself shows (ssh-keygen -lf "
        f"/etc/ssh/ssh_host_ed25519_key.pub) with `ssh-keyscan -p {port} {address} | ssh-keygen "
        f"-lf -`, and put the key into {data.get('ssh_known_hosts_file') or '~/.ssh/known_hosts'}"
    )


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

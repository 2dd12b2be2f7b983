"""Makes a report about nodes that were asked, and writes it in one of the formats."""

from __future__ import annotations

import errno
import io
import os
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
from gpu_node.inventories.errors import did_you_mean, quoted, reason, shown, worded

FILE_WIDTH = 160
_LONGEST_NAME = 255


def report_of(inventory: str, seen: dict[str, Seen]) -> Report:
    """Return the report about the nodes of an inventory that were asked."""
    tool = Tool(name="gpu-node", version=version("gpu-node"))
    now = datetime.now(timezone.utc).isoformat(timespec="seconds")
    return build(seen, tool, inventory, now)


def check_given(output: str | None, only: Iterable[str]) -> None:
    """Refuse an output that cannot be written, and an empty word, before any node is asked."""
    if "" in only:
        raise _unknown_word("", ())
    if output is None:
        return
    try:
        _check_target(_target(output))
    except OSError as error:
        raise _unwritable(output, error) from None


def check_only(report: Report, words: Iterable[str]) -> None:
    """Refuse a word of --only that is no rule, no area and no node of the report."""
    known = [*(each.id for each in in_order()), *UNREADABLE, *AREAS, *report.hosts]
    for word in words:
        if word not in known:
            raise _unknown_word(word, known)


def _unknown_word(word: str, known: Iterable[str]) -> click.UsageError:
    why = f"an unknown word{did_you_mean(word, known)}"
    allowed = "a rule, an area or a node of the report"
    return click.UsageError(f"--only: {worded(shown(word), why, allowed, 'gpu-node rules')}")


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
        target = _target(output)
        if target.is_file() or not target.exists():
            replace(target, text.encode(), 0o666)
        else:  # a pipe or a device is written into; a folder is an error
            target.write_text(text, encoding="utf-8")
    except OSError as error:
        raise _unwritable(output, error) from None


def _target(output: str) -> Path:
    return Path(output).resolve() if output else Path(output)


def _check_target(target: Path) -> None:
    """Raise OSError for a folder, and where a file cannot be put in place or written into."""
    if target.is_dir():
        raise _error(errno.EISDIR)
    is_replaced = target.is_file() or not target.exists()
    if is_replaced:
        os.stat(f"{target.parent}/.")  # why there is no such folder
    if not os.access(target.parent if is_replaced else target, os.W_OK):
        raise _error(errno.EACCES)


def _error(number: int) -> OSError:
    return OSError(number, os.strerror(number))


def _unwritable(output: str, error: OSError) -> click.ClickException:
    name = output if 0 < len(output) <= _LONGEST_NAME else quoted(output)
    problem = worded(reason(error), f"cannot write {name}", "a file")
    return click.ClickException(f"--output: {problem}")

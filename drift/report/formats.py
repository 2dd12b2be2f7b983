"""The formats of a report: each is a module of this folder with a function `parts`."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import import_module
from typing import IO, TYPE_CHECKING

from gpu_node.facts.probe.lines import lines_of

if TYPE_CHECKING:  # the names alone must be quick to have: --help lists them
    from rich.console import Console, RenderableType

    from gpu_node.drift.report.view import View

# What `--format` offers, the default first, and the suffixes of a file that choose it without.
_ROWS = {
    "table": (".txt", ".log"),
    "json": (".json",),
    "markdown": (".md",),
    "junit": (".xml",),
    "prometheus": (".prom",),
    "html": (".html", ".htm"),
}
FORMATS = tuple(_ROWS)
SUFFIXES = {suffix: form for form, suffixes in _ROWS.items() for suffix in suffixes}
# Those without a value of a node: a program of another user reads them.
FOR_ALL = ("prometheus",)
_DUMB_LINES = 25


@dataclass(frozen=True)
class Page:
    """Where a report is written: a console with its width, colours and encoding.

    The others are about the table: every finding with its cause and fix (`full`), and the facts
    before the problems (`facts`).
    """

    console: Console
    full: bool = False
    facts: bool = False


def format_of(output: str | None) -> str | None:
    """Return the format that a file's suffix chooses, the first without one; None: no format's."""
    suffix = os.path.splitext(output or "")[1]
    return SUFFIXES.get(suffix.lower()) if suffix else FORMATS[0]


def plain(file: IO[str] | None = None, stderr: bool = False, width: int | None = None) -> Console:
    """Return a console on which brackets and colons are text; COLUMNS counts on any terminal."""
    from rich.console import Console

    # Without a height rich takes every dumb terminal for one of 80 columns.
    height = _DUMB_LINES if os.environ.get("TERM", "").lower() in ("dumb", "unknown") else None
    return Console(file=file, stderr=stderr, width=width, height=height, markup=False, emoji=False)


def printed(renderable: RenderableType, console: Console) -> str:
    """Return what a console prints: styled on a terminal, else plain lines without blanks behind.

    The last line ends with a newline.
    """
    with console.capture() as captured:
        console.print(renderable, crop=False)
    if console.is_terminal:
        return captured.get()
    return "".join(f"{line.rstrip()}\n" for line in lines_of(captured.get()))


def parts(form: str, view: View, page: Page) -> Iterable[str]:
    """Return the parts of a report in one of FORMATS, for a page; the last ends with a newline."""
    module = import_module(f"gpu_node.drift.report.{form}")
    written: Iterable[str] = module.parts(view, page)
    return written

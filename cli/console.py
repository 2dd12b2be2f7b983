"""Consoles that print what they are given: no markup, no emoji codes."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext

import click
from rich.console import RenderableType
from rich.status import Status
from rich.text import Text

from gpu_node.drift.report.formats import plain, printed
from gpu_node.inventories.escape import visible


def show(renderable: RenderableType, in_pipe: int | None = None) -> None:
    """Print to stdout, as wide as the terminal; `in_pipe` is the width where it is no terminal."""
    console = plain(file=sys.stdout)
    if in_pipe is not None and not console.is_terminal:
        console = plain(file=sys.stdout, width=in_pipe)
    click.echo(printed(renderable, console), nl=False, color=console.is_terminal)


def stage_text(stage: str) -> Text:
    """Return a stage as one line: more than a terminal's width would leave lines behind."""
    return Text(visible(stage), no_wrap=True, overflow="ellipsis")


def working(stage: str) -> AbstractContextManager[Status]:
    """Return what shows a stage of the work on stderr, on a terminal, while it lasts."""
    console = plain(stderr=True)
    status = console.status(stage_text(stage))
    # rich would write nothing to what is no terminal, but that fails on a full disk, too.
    return status if console.is_terminal else nullcontext(status)

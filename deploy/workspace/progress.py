"""Progress of copies on a terminal: a bar for each node, with bytes and rate."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from gpu_node.deploy.engine.run import Run, Slot
from gpu_node.inventories.escape import visible


@dataclass
class Display:
    """The display of all bars of a run, while there is one."""

    shown: Progress | None = None


DISPLAY = Slot(Display)


@contextmanager
def bar(run: Run, name: str, total: int) -> Iterator[Callable[[int], None]]:
    """Yield a function that takes the bytes done; nothing is shown if stderr is not a terminal."""
    if not sys.stderr.isatty():
        yield lambda done: None
        return
    known = run.of(DISPLAY)
    display = known.shown
    if display is None:
        known.shown = display = _new()
        display.start()
    task = display.add_task(visible(name), total=total)
    try:
        yield lambda done: display.update(task, completed=done)
    finally:
        display.stop_task(task)
        display.update(task, visible=not display.tasks[task].finished)
        if all(each.stop_time is not None for each in display.tasks):
            display.stop()
            known.shown = None


def _new() -> Progress:
    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    return Progress(
        TextColumn("    [{task.description}]", markup=False),
        *columns,
        console=Console(stderr=True, markup=False, emoji=False),
        transient=True,
        # pyinfra redraws its own line repeatedly: each would stay as one more line.
        redirect_stdout=False,
        redirect_stderr=False,
    )

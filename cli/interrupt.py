"""Ctrl-C while nodes are asked: one line and exit 1, whichever greenlet it falls upon."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

LINE = "gpu-node: interrupted"
# What is printed, by whoever asked last.
_lines: list[Callable[[], str]] = [lambda: LINE]


def say(line: str) -> None:
    """Say that it was interrupted, below a cursor that a progress bar may have hidden."""
    # Not above: help texts and usage errors do without rich.
    from rich.console import Console

    Console(stderr=True).show_cursor(True)
    _print(line)


def stop(line: str = LINE) -> None:
    """End at once: gevent's threads would wait for the nodes that are being asked."""
    say(line)
    os._exit(1)


@contextmanager
def ending_early() -> Iterator[None]:
    """End in one line on Ctrl-C during the imports within; where it is ignored it stays so."""
    is_heeded = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if is_heeded:
        signal.signal(signal.SIGINT, _end)
    try:
        yield
    finally:
        if is_heeded:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def _end(number: int, frame: FrameType | None) -> None:
    _print(LINE)
    os._exit(1)


def _print(line: str) -> None:
    """Print a line of its own: a terminal has ^C on the last one."""
    print("\n" * sys.stderr.isatty() + line, file=sys.stderr, flush=True)


@contextmanager
def at_once(line: Callable[[], str] | None = None) -> Iterator[None]:
    """Stop on Ctrl-C within; as an exception it would be lost in one of paramiko's threads.

    `line` says what is printed then; one that is within another says what that does.
    """

    def interrupted(number: int, frame: FrameType | None) -> None:
        stop(_lines[-1]())

    before = signal.signal(signal.SIGINT, interrupted)
    _lines.append(line or _lines[-1])
    try:
        yield
    finally:
        _lines.pop()
        signal.signal(signal.SIGINT, before)

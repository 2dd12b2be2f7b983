"""Ctrl-C, SIGTERM and SIGHUP: how every command reacts to them, and how it ends."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from gpu_node.inventories.escape import visible_lines

LINE = "gpu-node: interrupted"
_ENDING = (signal.SIGINT, signal.SIGTERM)

Handler = Callable[[int, FrameType | None], None]


class Interrupted(Exception):
    """Work was stopped by a signal; `left` lists what could not be removed from the nodes.

    `run` is the name of the run of pyinfra that it ended, if one had begun.
    """

    def __init__(self, left: tuple[str, ...] = ()) -> None:
        super().__init__("interrupted")
        self.left = left
        self.run = ""


@contextmanager
def handled(handler: Handler, *signals: signal.Signals) -> Iterator[None]:
    """Call `handler` on Ctrl-C, SIGTERM and SIGHUP, or on `signals`, within the context.

    SIGHUP stays ignored where it is ignored (nohup). Ctrl-C does not: a shell without job control
    starts background processes with it ignored.
    """
    if not signals:
        is_ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        signals = _ENDING if is_ignored else (*_ENDING, signal.SIGHUP)
    before = {each: signal.signal(each, handler) for each in signals}
    try:
        yield
    finally:
        for each, former in before.items():
            signal.signal(each, former)


@contextmanager
def deferred() -> Iterator[None]:
    """Defer Ctrl-C, SIGTERM and SIGHUP until the end of the context.

    Blocking them is not enough: another thread would receive them, and this one handle them.
    """
    received: list[int] = []
    try:
        with handled(lambda number, _: received.append(number)):
            yield
    finally:
        for number in dict.fromkeys(received):
            os.kill(os.getpid(), number)


class Stop:
    """A handler that prints a line and ends the process."""

    def __init__(self, line: Callable[[], str]) -> None:
        self.line = line

    def __call__(self, number: int, frame: FrameType | None) -> None:
        stop(self.line())


@contextmanager
def at_once(line: Callable[[], str] | None = None) -> Iterator[None]:
    """End the process on Ctrl-C: one of paramiko's threads would swallow an exception.

    `line` returns what is printed then; without it the surrounding `at_once` decides.
    """
    if line is None and isinstance(signal.getsignal(signal.SIGINT), Stop):
        yield
        return
    with handled(Stop(line or (lambda: LINE)), signal.SIGINT):
        yield


@contextmanager
def during_imports() -> Iterator[None]:
    """End the process on Ctrl-C within the context; where Ctrl-C is ignored, it stays ignored."""
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    with at_once():
        yield


def stop(line: str = LINE) -> None:
    """Print a line and end with exit code 1 at once: gevent would wait for the nodes."""
    report(line)
    os._exit(1)


def stop_silently(number: int, frame: FrameType | None) -> None:
    """End with exit code 1 at once, as a handler for a child whose parent prints the line."""
    os._exit(1)


def is_silent() -> bool:
    """Whether this process is a child whose parent reports for it."""
    return signal.getsignal(signal.SIGINT) is stop_silently


def report(line: str) -> None:
    """Print a line to stderr, below the ^C of a terminal; show the cursor that rich may hide."""
    if console := getattr(sys.modules.get("rich.console"), "Console", None):
        console(stderr=True, markup=False, emoji=False).show_cursor(True)
    text = "\n" * sys.stderr.isatty() + visible_lines(line) + "\n"
    try:
        print(text, end="", file=sys.stderr, flush=True)
    except RuntimeError:  # the signal interrupted a write to stderr
        os.write(2, text.encode(errors="backslashreplace"))

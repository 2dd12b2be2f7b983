"""Ctrl-C while a job runs on the nodes: it is ended there before the command ends here."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TypeVar

import gevent
from gevent.event import Event

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_AGAIN = b"gpu-node: interrupted again: what was started on the nodes ends by its own time limit\n"

T = TypeVar("T")


class Interrupted(Exception):
    """The work was stopped by Ctrl-C or a signal; `left` says what could not be cleared up."""

    def __init__(self, left: tuple[str, ...] = ()) -> None:
        super().__init__("interrupted")
        self.left = left


@contextmanager
def heeding() -> Iterator[Event]:
    """Yield an event that Ctrl-C sets; the second one ends the process at once.

    As an exception it would be lost in one of paramiko's threads.
    """
    stopped = Event()

    def interrupted(number: int, frame: FrameType | None) -> None:
        if stopped.is_set():
            os.write(2, b"\n" * os.isatty(2) + _AGAIN)
            os._exit(1)
        stopped.set()

    # A hang-up that is ignored, as below nohup, stays so.
    heeds_hangup = signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN
    meant = (*_SIGNALS, signal.SIGHUP) if heeds_hangup else _SIGNALS
    before = {each: signal.signal(each, interrupted) for each in meant}
    try:
        yield stopped
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def until(stopped: Event, work: Callable[[], T]) -> T:
    """Return what `work` returns; raises Interrupted, and leaves it, when it is stopped."""
    running = gevent.spawn(_caught, work)
    gevent.wait([running, stopped], count=1)
    if not running.ready():
        running.kill(block=False)
        raise Interrupted
    value, error = running.value
    if error is not None:
        raise error
    result: T = value
    return result


def _caught(work: Callable[[], T]) -> tuple[T | None, Exception | None]:
    """An error of a greenlet would be printed, with its traceback."""
    try:
        return work(), None
    except Exception as error:
        return None, error

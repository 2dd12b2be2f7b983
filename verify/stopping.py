"""Stops a running job on Ctrl-C, so that it is ended on the nodes before the command ends here."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TypeVar

import gevent
from gevent.event import Event

from gpu_node.inventories.interrupt import LINE, Interrupted, handled, stop

_AGAIN = f"{LINE} again: processes on the nodes end by their own time limit"

T = TypeVar("T")


@contextmanager
def stop_requests() -> Iterator[Event]:
    """Yield an event that Ctrl-C sets; the second Ctrl-C ends the process at once.

    One of paramiko's threads would swallow an exception.
    """
    stopped = Event()

    def interrupted(number: int, frame: FrameType | None) -> None:
        if stopped.is_set():
            stop(_AGAIN)
        stopped.set()

    with handled(interrupted):
        yield stopped


def until(stopped: Event, work: Callable[[], T]) -> T:
    """Return the result of `work`; raises Interrupted, and leaves it, when `stopped` is set."""
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
    """Return an error: gevent would print the traceback of one that leaves a greenlet."""
    try:
        return work(), None
    except Exception as error:
        return None, error

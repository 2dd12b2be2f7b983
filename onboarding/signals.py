"""Ctrl-C and its like: who handles them for a while, and what must not be half done for them."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_ENDING = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def handled(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Have a handler for what ends a process; a hang-up that is ignored, below nohup, stays so.

    Ctrl-C is heeded always: a shell without job control starts what is in the background without.
    """
    heeds_hangup = signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN
    meant = (*_ENDING, signal.SIGHUP) if heeds_hangup else _ENDING
    before = {each: signal.signal(each, handler) for each in meant}
    try:
        yield
    finally:
        for each, former in before.items():
            signal.signal(each, former)


@contextmanager
def undisturbed() -> Iterator[None]:
    """Hold Ctrl-C and its like back within; they come afterwards.

    A blocked signal would still be taken by another thread, and handled by this one.
    """
    came: list[int] = []

    def hold(number: int, frame: FrameType | None) -> None:
        came.append(number)

    try:
        with handled(hold):
            yield
    finally:
        for number in dict.fromkeys(came):
            os.kill(os.getpid(), number)

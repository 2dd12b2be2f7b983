"""Ctrl-C while nodes are asked: one line and exit 1, whichever greenlet it falls upon."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from rich.console import Console

LINE = "gpu-node: interrupted"


def stop() -> None:
    """End at once: gevent's threads would wait for the nodes that are being asked."""
    Console(stderr=True).show_cursor(True)
    print(LINE, file=sys.stderr, flush=True)
    os._exit(1)


@contextmanager
def at_once() -> Iterator[None]:
    """Stop on Ctrl-C within; as an exception it would be lost in one of paramiko's threads."""

    def interrupted(number: int, frame: FrameType | None) -> None:
        stop()

    before = signal.signal(signal.SIGINT, interrupted)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)

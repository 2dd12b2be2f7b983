"""A program on a node that speaks in lines with this machine, and waiting for several of them."""

import time
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Collection
from typing import TypeVar

import gevent


class LineTalk(ABC):
    """The session with a program: a `Talk` of the connection; `ended` is why it has ended."""

    def __init__(self) -> None:
        # The last line that is no answer.
        self.ended, self.last = "", "no output"
        self._to_send: bytes | None = b""
        # Of each stream the line that has begun.
        self._begun: defaultdict[str, bytearray] = defaultdict(bytearray)

    def send(self, data: bytes) -> None:
        """Send it with the next turn of the connection."""
        if self._to_send is not None:
            self._to_send += data

    def close(self) -> None:
        """Have the program end."""
        self._to_send = None

    def more(self) -> bytes | None:
        """Return what is to be sent."""
        sent, self._to_send = self._to_send, None if self._to_send is None else b""
        return sent

    def hear(self, stream: str, data: bytes) -> None:
        """Take whole lines of what it prints."""
        self._begun[stream] += data
        if b"\n" in data:
            *lines, rest = bytes(self._begun[stream]).split(b"\n")
            self._begun[stream] = bytearray(rest)
            for line in lines:
                self.take(line.decode("utf-8", "replace").strip())

    @abstractmethod
    def take(self, line: str) -> None:
        """Take a line."""


P = TypeVar("P", bound=LineTalk)


def wait(programs: Collection[P], seconds: float, is_done: Callable[[P], bool]) -> None:
    """Wait until it is so of those that have not ended."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and not all(each.ended or is_done(each) for each in programs):
        gevent.sleep(0.01)

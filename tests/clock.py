"""A clock that goes on when all greenlets wait for it: a busy machine has no part in a test."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from types import SimpleNamespace
from typing import TypeVar

import gevent
import pytest
from gevent.event import Event

# After so many switches each greenlet waits: for the clock, or for another one.
_SWITCHES = 10
T = TypeVar("T")


class Clock:
    """Seconds that pass only in `sleep`."""

    def __init__(self) -> None:
        self._now = 0.0
        self._numbers = count()
        self._sleeping: list[tuple[float, int, Event]] = []

    def monotonic(self) -> float:
        """Return the seconds since the start."""
        return self._now

    def sleep(self, seconds: float) -> None:
        """Wait until the clock has gone on for so long."""
        awake = Event()
        heappush(self._sleeping, (self._now + seconds, next(self._numbers), awake))
        awake.wait()

    def run(self, *work: Callable[[], T]) -> list[T]:
        """Do all of it at the same time; return the results."""
        jobs = [gevent.spawn(each) for each in work]
        while True:
            for _ in range(_SWITCHES):
                gevent.sleep(0)
            if all(each.ready() for each in jobs):
                return [each.get() for each in jobs]
            self._now, _, awake = heappop(self._sleeping)
            awake.set()

    def replace_in(self, module: object, monkeypatch: pytest.MonkeyPatch) -> None:
        """Have a module take its time from this clock."""
        with_sleep = SimpleNamespace(**{**vars(gevent), "sleep": self.sleep})
        monkeypatch.setattr(module, "gevent", with_sleep)
        monkeypatch.setattr(module, "time", self)

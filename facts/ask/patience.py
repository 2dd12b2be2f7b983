"""Time limits for nodes that are probed in parallel: a silent node does not delay the others."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import gevent
from gevent import Greenlet
from pyinfra.api import Host
from pyinfra.connectors.base import BaseConnector

# Seconds after half of the other nodes have answered: a node without any output is given up after
# the first limit, every node after the second one. A running probe sends something every 10 s.
SILENT_SECONDS, LAST_SECONDS = 30, 180
# Seconds of silence after which any node is given up: its login shell hangs.
HUNG_SECONDS = 90
# A report that reads all files of an environment takes minutes for each environment.
DEEP_LAST_SECONDS = 1800
_LOOK_SECONDS = 0.5


class GivenUp(BaseException):
    """A node that is given up; str() is the reason.

    It is not an Exception: code that asks a node treats those as a broken connection.
    """


@dataclass
class _Waiting:
    """A node that is being asked: the connection, the greenlet, and the start time."""

    host: Host
    connector: BaseConnector
    greenlet: Greenlet
    since: float


class Patience:
    """Watches `nodes` nodes that are asked, each in its own greenlet; `last` in seconds."""

    def __init__(self, nodes: int, last: float | None = None) -> None:
        self._last = LAST_SECONDS if last is None else last
        # A single node has the whole time limit of the probe.
        self._enough = math.ceil((nodes - 1) / 2) if nodes > 1 else math.inf
        self._answered: set[str] = set()
        self._since: float | None = None
        self._waiting: list[_Waiting] = []
        self._watch: Greenlet | None = None

    @contextmanager
    def asking(self, host: Host, connector: BaseConnector | None = None) -> Iterator[None]:
        """Ask a node inside this context; raises GivenUp if it takes much longer than the others.

        An error does not count as an answer: a node that is switched off fails at once. The node
        is asked over its connection, or over `connector`.
        """
        by = connector or host.connector
        waiting = _Waiting(host, by, gevent.getcurrent(), time.monotonic())
        self._waiting.append(waiting)
        if not self._watch:
            self._watch = gevent.spawn(self._look)
        try:
            yield
            self._count(host)
        finally:
            self._waiting.remove(waiting)

    def _count(self, host: Host) -> None:
        self._answered.add(host.name)
        if self._since is None and len(self._answered) >= self._enough:
            self._since = time.monotonic()

    def _look(self) -> None:
        while self._waiting:
            for each in list(self._waiting):
                if reason := self._given_up(each, time.monotonic()):
                    # A node is given up only once.
                    each.since = math.inf
                    each.greenlet.kill(GivenUp(reason), block=False)
            gevent.sleep(_LOOK_SECONDS)

    def _given_up(self, each: _Waiting, now: float) -> str:
        if now - max(each.since, _heard(each.connector) or 0) > HUNG_SECONDS:
            return (
                f"it sent nothing for {HUNG_SECONDS} s: its login shell hangs; next: look at "
                "~/.bashrc, and at the file system of the home"
            )
        if self._since is None:
            return ""
        begun = max(each.since, self._since)
        alone = f"to wait for it, ask it alone with --limit {each.host.name}"
        if now - max(begun, _heard(each.connector) or 0) > SILENT_SECONDS:
            return f"it sent nothing for {SILENT_SECONDS} s while the others answered: {alone}"
        if now - begun > self._last:
            return f"it has not answered {self._last} s after half of the others: {alone}"
        return ""


def _heard(connector: BaseConnector) -> float | None:
    """Return the time of the last input from a connection; None where that is unknown."""
    client = getattr(connector, "client", None)
    transport = client.get_transport() if client else None
    return getattr(getattr(transport, "packetizer", None), "heard", None)

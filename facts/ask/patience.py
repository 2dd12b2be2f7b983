"""Time limits for nodes that are probed in parallel: a silent node does not delay the others."""

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import gevent
from gevent import Greenlet
from pyinfra.api import Host
from pyinfra.connectors.base import BaseConnector

from gpu_node.facts.ask import waiting
from gpu_node.facts.ask.waiting import DEEP_LAST_SECONDS, Waiting

__all__ = ["DEEP_LAST_SECONDS", "GivenUp", "Patience"]

_LOOK_SECONDS = 0.5


class GivenUp(BaseException):
    """A node that is given up; str() is the reason.

    It is not an Exception: code that asks a node treats those as a broken connection.
    """


@dataclass
class _Asked:
    """A node that is being asked: the connection, the greenlet, and the start time."""

    host: Host
    connector: BaseConnector
    greenlet: Greenlet
    since: float


class Patience:
    """Watches `nodes` nodes that are asked, each in its own greenlet; `last` in seconds."""

    def __init__(self, nodes: int, last: float | None = None) -> None:
        self._waiting = Waiting(nodes, waiting.LAST_SECONDS if last is None else last)
        self._asked: list[_Asked] = []
        self._watch: Greenlet | None = None

    @contextmanager
    def asking(self, host: Host, connector: BaseConnector | None = None) -> Iterator[None]:
        """Ask a node inside this context; raises GivenUp if it takes much longer than the others.

        An error does not count as an answer: a node that is switched off fails at once. The node
        is asked over its connection, or over `connector`.
        """
        by = connector or host.connector
        asked = _Asked(host, by, gevent.getcurrent(), time.monotonic())
        self._asked.append(asked)
        if not self._watch:
            self._watch = gevent.spawn(self._look)
        try:
            yield
            self._waiting.count(host.name, time.monotonic())
        finally:
            self._asked.remove(asked)

    def _look(self) -> None:
        while self._asked:
            for each in list(self._asked):
                if reason := self._given_up(each, time.monotonic()):
                    # A node is given up only once.
                    each.since = math.inf
                    each.greenlet.kill(GivenUp(reason), block=False)
            gevent.sleep(_LOOK_SECONDS)

    def _given_up(self, each: _Asked, now: float) -> str:
        heard = _heard(each.connector)
        return self._waiting.given_up(each.host.name, each.since, heard, now)


def _heard(connector: BaseConnector) -> float | None:
    """Return the time of the last input from a connection; None where that is unknown."""
    client = getattr(connector, "client", None)
    transport = client.get_transport() if client else None
    return getattr(getattr(transport, "packetizer", None), "heard", None)

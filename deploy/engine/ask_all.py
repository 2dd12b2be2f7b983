"""Asks all nodes of a run once, in parallel, when the first answer is needed.

Rules between nodes need the answers of all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

from gevent.event import AsyncResult
from gevent.pool import Pool
from pyinfra.api import Host, State

PARALLEL = 50
T = TypeVar("T")


class AskAll(Generic[T]):
    """The answers of the nodes of one run, by name."""

    def __init__(self) -> None:
        self._result: AsyncResult[Mapping[str, T]] | None = None

    def answers(self, state: State, ask: Callable[[Host], T]) -> Mapping[str, T]:
        """Return the result of `ask` for each node that is still in the run; called once each.

        An error that it raises is raised for every node.
        """
        if self._result is None:
            result = self._result = AsyncResult()
            try:
                hosts = list(state.active_hosts)
                results = Pool(PARALLEL).map(ask, hosts)
                result.set({host.name: each for host, each in zip(hosts, results, strict=True)})
            except BaseException as error:
                result.set_exception(error)
                raise
        answers: Mapping[str, T] = self._result.get()
        return answers

    def known(self) -> Mapping[str, T]:
        """Return the answers so far, without asking."""
        if self._result is None or not self._result.ready():
            return {}
        answers: Mapping[str, T] = self._result.get()
        return answers

"""A round of questions: all nodes of a run are asked side by side, once, when one wants to know.

What is wrong between nodes can be judged when all of them have answered.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

from gevent.event import AsyncResult
from gevent.pool import Pool
from pyinfra.api import Host, State

PARALLEL = 50
T = TypeVar("T")


class Round(Generic[T]):
    """The answers of the nodes of a run, by name."""

    def __init__(self) -> None:
        self._asked: WeakKeyDictionary[State, AsyncResult[Mapping[str, T]]] = WeakKeyDictionary()

    def answers(self, state: State, ask: Callable[[Host], T]) -> Mapping[str, T]:
        """Return what `ask` says of each node that is still in the run; it is called once each.

        An error that it raises is raised for every node.
        """
        if state not in self._asked:
            result = self._asked[state] = AsyncResult()
            try:
                hosts = list(state.active_hosts)
                told = Pool(PARALLEL).map(ask, hosts)
                result.set({host.name: each for host, each in zip(hosts, told, strict=True)})
            except BaseException as error:
                result.set_exception(error)
                raise
        answers: Mapping[str, T] = self._asked[state].get()
        return answers

    def known(self, state: State) -> Mapping[str, T]:
        """Return the answers as far as they are there, without asking."""
        result = self._asked.get(state)
        if result is None or not result.ready():
            return {}
        answers: Mapping[str, T] = result.get()
        return answers

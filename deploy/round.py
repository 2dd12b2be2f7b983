"""A round of probes: all nodes of a run are asked side by side, once, and judged among each other.

What is wrong between nodes can be judged when all of them have answered, so the first node that
wants to know asks for all.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from weakref import WeakKeyDictionary

from gevent.event import AsyncResult
from gevent.pool import Pool
from pyinfra.api import Host, State

from drift.among import Among
from facts.cluster import peers_of
from facts.node import NodeState
from facts.session import ProbeError

Ask = Callable[[Host], NodeState]
Answers = Mapping[str, NodeState | ProbeError]
PARALLEL = 50


class Round:
    """The answers of the nodes of a run by name, asked for when the first of them is wanted."""

    def __init__(self) -> None:
        self._asked: WeakKeyDictionary[State, AsyncResult[Answers]] = WeakKeyDictionary()

    def answers(self, state: State, ask: Ask, only: Container[str] | None = None) -> Answers:
        """Return what `ask` says of each node still in the run, or of those; called once each."""
        if state in self._asked:
            return self._answered(state)
        result = self._asked[state] = AsyncResult()
        try:
            hosts = [each for each in state.active_hosts if only is None or each.name in only]
            result.set(_asked(hosts, ask))
        except BaseException as error:
            result.set_exception(error)
            raise
        return self._answered(state)

    def found(self, state: State) -> Mapping[str, NodeState]:
        """Return the states that are known by now, without asking."""
        if state not in self._asked or not self._asked[state].ready():
            return {}
        answers = self._answered(state)
        return {name: each for name, each in answers.items() if isinstance(each, NodeState)}

    def _answered(self, state: State) -> Answers:
        """Wait for the answers; the error that asking ended with is raised for every node."""
        answers: Answers = self._asked[state].get()
        return answers


def _asked(hosts: Sequence[Host], ask: Ask) -> Answers:
    def answer(host: Host) -> NodeState | ProbeError:
        try:
            return ask(host)
        except ProbeError as error:
            return error

    return dict(zip([host.name for host in hosts], Pool(PARALLEL).map(answer, hosts), strict=True))


def among(host: Host, found: Mapping[str, NodeState]) -> Among:
    """Return a host among the nodes of its cluster, of which these were found."""
    return Among(host.name, peers_of(host.data.dict()), found)


# What the nodes were like before the run, and what they are like at its end.
BEFORE, AFTER = Round(), Round()

"""What the nodes of a run were like before it: each is asked once, and judged among the others."""

from __future__ import annotations

from collections.abc import Mapping

from pyinfra.api import Host, State

from deploy.round import Round
from drift.among import Among
from facts.cluster import peers_of
from facts.node import NodeState
from facts.session import ProbeError, probe, tune

_answers: Round[NodeState | ProbeError] = Round()


def state_of(host: Host) -> NodeState:
    """Return what a host was like; raises ProbeError."""
    answer = _answers.answers(host.state, _ask)[host.name]
    if isinstance(answer, ProbeError):
        raise answer
    return answer


def _ask(host: Host) -> NodeState | ProbeError:
    try:
        tune(host.connector)
        return probe(host)
    except ProbeError as error:
        return error


def states(state: State) -> dict[str, NodeState]:
    """Return what is known of the nodes of a run by now, by name."""
    answers = _answers.known(state)
    return {name: each for name, each in answers.items() if isinstance(each, NodeState)}


def among(host: Host, found: Mapping[str, NodeState]) -> Among:
    """Return a host among the nodes of its cluster, of which these were found."""
    allowed = host.data.get("allow_deletions") is True
    return Among(host.name, peers_of(host.data.dict()), found, allowed)

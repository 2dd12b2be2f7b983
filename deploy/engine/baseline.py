"""The states of the nodes before the run: each node is probed once."""

from __future__ import annotations

from collections.abc import Mapping

from pyinfra.api import Host, State
from pyinfra.api.exceptions import ConnectError

from gpu_node.deploy.engine.hooks import hooks
from gpu_node.deploy.engine.run import run_of
from gpu_node.drift.engine.nodes import Nodes
from gpu_node.facts.ask.patience import GivenUp, Patience
from gpu_node.facts.ask.session import ProbeError, fresh, probe, tune
from gpu_node.facts.node import NodeState
from gpu_node.facts.probe.bounds import not_understood
from gpu_node.facts.probe.peers import peers_of


def state_of(host: Host) -> NodeState:
    """Return the state of a host before the run; raises ProbeError."""
    patience = Patience(len(host.state.active_hosts))
    baseline = run_of(host.state).baseline
    answer = baseline.answers(host.state, lambda each: _ask(each, patience))[host.name]
    if isinstance(answer, ProbeError):
        raise answer
    return answer


def _ask(host: Host, patience: Patience) -> NodeState | ProbeError:
    try:
        with patience.asking(host):
            tune(host.connector)
            state = probe(host)
        settled = [hook.settle(host, state) for hook in hooks()]
        if any(settled):
            # A session has the limits that were there at its start.
            with fresh(host) as connector, patience.asking(host, connector):
                return probe(host, connector)
        return state
    except ProbeError as error:
        return error
    except GivenUp as error:
        return ProbeError(str(error))
    except ConnectError as error:
        return ProbeError(f"no new session: {error}")
    except Exception as error:  # the answer of one node must not end the run of another
        return ProbeError(not_understood(error))


def states(state: State) -> dict[str, NodeState]:
    """Return the states of the nodes of a run that have answered by now, by name."""
    answers = run_of(state).baseline.known()
    return {name: each for name, each in answers.items() if isinstance(each, NodeState)}


def nodes_of(host: Host, known: Mapping[str, NodeState]) -> Nodes:
    """Return a host among the nodes of its cluster, with the states that are known."""
    allowed = host.data.get("allow_deletions") is True
    day = run_of(host.state).day
    return Nodes(host.name, peers_of(host.data.dict()), known, allowed, day=day)

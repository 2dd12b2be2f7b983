"""The states of the nodes before the run: each node is probed once, or was just before it."""

from collections.abc import Mapping
from typing import Any

from pyinfra.api import Host, State
from pyinfra.api.exceptions import ConnectError

from gpu_node.deploy.engine.plan import hooks, together
from gpu_node.deploy.engine.run import Run, run_of
from gpu_node.drift.engine.nodes import Nodes
from gpu_node.facts.ask.patience import GivenUp, Patience
from gpu_node.facts.ask.session import ProbeError, fresh, is_recent, probe, tune
from gpu_node.facts.node import NodeState
from gpu_node.facts.probe.bounds import not_understood
from gpu_node.facts.probe.peers import peers_of
from gpu_node.inventories.wanted import NodeWanted

# How old an answer may be that gpu-node had before the run.
MOST_SECONDS = 120


def handed(wanted: NodeWanted, state: NodeState) -> Any:
    """Return a node's answer for another process: as JSON, with what the inventory wants."""
    return [wanted.model_dump(mode="json"), state.model_dump(mode="json")]


def taken(answer: Any, wanted: NodeWanted) -> NodeState | None:
    """Return the state in such an answer; None if the inventory wants something else by now."""
    is_meant = answer and answer[0] == wanted.model_dump(mode="json")
    return NodeState.model_validate(answer[1]) if is_meant else None


def state_of(host: Host) -> NodeState:
    """Return the state of a host before the run; raises ProbeError."""
    patience = Patience(len(host.state.active_hosts))
    baseline = run_of(host.state).baseline
    answers = baseline.answers(host.state, lambda each: _ask(each, patience), together)
    answer = answers[host.name]
    if isinstance(answer, ProbeError):
        raise answer
    return answer


def _ask(host: Host, patience: Patience) -> NodeState | ProbeError:
    try:
        with patience.asking(host):
            tune(host.connector)
            state = _from_parent(host) or probe(host)
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


def _from_parent(host: Host) -> NodeState | None:
    """Return the state that gpu-node had before the run; None if that may have changed."""
    answer = Run.from_parent.get(host.name)
    state = answer and taken(answer, NodeWanted.from_data(host.data.dict()))
    return state if state and is_recent(state, host.connector, MOST_SECONDS) else None


def states(state: State) -> dict[str, NodeState]:
    """Return the states of the nodes of a run that have answered by now, by name."""
    answers = run_of(state).baseline.known()
    return {name: each for name, each in answers.items() if isinstance(each, NodeState)}


def nodes_of(host: Host, known: Mapping[str, NodeState]) -> Nodes:
    """Return a host among the nodes of its cluster, with the states that are known."""
    allowed = host.data.get("allow_deletions") is True
    day = run_of(host.state).day
    return Nodes(host.name, peers_of(host.data.dict()), known, allowed, day=day)

"""Ports that the nodes of a run try together, before and after it, where firewalld is ours."""

from collections.abc import Mapping

from pyinfra.api import Host

from gpu_node.drift.ports.ends import ends
from gpu_node.facts.ask.gather import Answer
from gpu_node.facts.node import NodeState
from gpu_node.facts.ports.trying import with_ports

# The key of a host's data.
KEY = "firewall_trust_nodes"


def tried(states: Mapping[Host, NodeState]) -> Mapping[Host, NodeState]:
    """Return states of nodes with what these tried, where one wants that and it is not known."""
    wants = any(host.data.get(KEY) is True for host in states)
    if not wants or any(each.ports.tried is not None for each in states.values()):
        return states
    return {host: each for host, each in tried_again(states).items() if each is not None}


def tried_again(states: Mapping[Host, NodeState | None]) -> dict[Host, NodeState | None]:
    """Return states of nodes with what these try now."""
    answers = {host: Answer(host.data.dict(), state) for host, state in states.items()}
    found = with_ports(answers, ends({host.name: each for host, each in answers.items()}))
    return {host: each.state for host, each in found.items()}

"""The nodes' current public keys during a run: some of them were made by it."""

from __future__ import annotations

from collections.abc import Mapping

from pyinfra.api import Host, State

from gpu_node.deploy.engine.run import run_of
from gpu_node.facts.ask.execute import execute
from gpu_node.facts.probe.request import request_of
from gpu_node.facts.ssh.state import TrainingAccount

_ASK_SECONDS = 30


def public_keys(state: State) -> Mapping[str, str | None]:
    """Return type and key of each node still in the run, None for a node without; read once.

    The nodes are asked over the connections of the run, so that no key goes through a file here.
    """
    return run_of(state).public_keys.answers(state, _public_key)


def _public_key(host: Host) -> str | None:
    fact = TrainingAccount()
    command = fact.command(user=request_of(host.data.dict()).user)
    try:
        _, output = execute(host.connector, command, _ASK_SECONDS)
        key: str | None = fact.process(output.stdout_lines).get("public")
    except Exception:  # no answer, or one that cannot be parsed
        return None
    return key

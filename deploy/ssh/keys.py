"""The nodes' public keys as they are while a run is at work: some were made a moment ago."""

from __future__ import annotations

from collections.abc import Mapping

from pyinfra.api import Host, State, StringCommand

from deploy.round import Round
from facts.named import named_by
from facts.ssh import TrainingAccount

_ASK_SECONDS = 30
_keys: Round[str | None] = Round()


def public_keys(state: State) -> Mapping[str, str | None]:
    """Return type and key of each node still in the run, None of one without; asked for once.

    The nodes are asked over the connections of the run, so that no key goes through a file here.
    """
    return _keys.answers(state, _public_key)


def _public_key(host: Host) -> str | None:
    fact = TrainingAccount()
    command = StringCommand(fact.command(user=named_by(host.data.dict()).user))
    try:
        _, output = host.connector.run_shell_command(command, False, False, _timeout=_ASK_SECONDS)
        key: str | None = fact.process(output.stdout_lines).get("public")
    except Exception:  # the transport broke: paramiko and socket errors of many classes
        return None
    return key

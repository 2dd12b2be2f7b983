"""The nodes' public keys as they are while a run is at work: some were made a moment ago."""

from __future__ import annotations

from collections.abc import Mapping
from weakref import WeakKeyDictionary

from gevent.event import AsyncResult
from gevent.pool import Pool
from pyinfra.api import Host, State, StringCommand

from deploy.round import PARALLEL
from facts.named import named_by
from facts.ssh import TrainingAccount

_ASK_SECONDS = 30
Keys = Mapping[str, str | None]
_asked: WeakKeyDictionary[State, AsyncResult[Keys]] = WeakKeyDictionary()


def public_keys(state: State) -> Keys:
    """Return type and key of each node still in the run, None of one without; asked for once.

    The nodes are asked over the connections of the run, so that no key goes through a file here.
    """
    if state not in _asked:
        result = _asked[state] = AsyncResult()
        try:
            hosts = list(state.active_hosts)
            keys = Pool(PARALLEL).map(_public_key, hosts)
            result.set({host.name: key for host, key in zip(hosts, keys, strict=True)})
        except BaseException as error:
            result.set_exception(error)
            raise
    keys_by_name: Keys = _asked[state].get()
    return keys_by_name


def _public_key(host: Host) -> str | None:
    fact = TrainingAccount()
    command = StringCommand(fact.command(user=named_by(host.data.dict()).user))
    try:
        _, output = host.connector.run_shell_command(command, False, False, _timeout=_ASK_SECONDS)
        key: str | None = fact.process(output.stdout_lines).get("public")
    except Exception:  # the transport broke: paramiko and socket errors of many classes
        return None
    return key

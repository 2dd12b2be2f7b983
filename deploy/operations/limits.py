"""Operations on resource limits.

pyinfra's server.security_limit edits limits.conf, the user's file, and appends a second line when a
value changes.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, cast

from pyinfra import host, logger
from pyinfra.api import FunctionCommand, Host, State, StringCommand, operation
from pyinfra.api.arguments import CONNECTOR_ARGUMENT_KEYS

from deploy.replacement import confirm, replace, restore
from facts.files import FileBytes
from facts.session import fresh

# How long the node waits for a new session to confirm its new limits before it takes them back.
CONFIRM_SECONDS = 60
SESSION_SECONDS = 20


@operation()
def own_file(path: str, content: str) -> Generator[StringCommand | FunctionCommand, None, None]:
    """
    Write a limits.d file of our own; kept only if a new session can still be opened with it.

    + path: the file, eg ``/etc/security/limits.d/99-gpu-node.conf``
    + content: its whole text
    """
    old = host.get_fact(FileBytes, path=path)
    if old["exists"] and old["text"] == content:
        host.noop(f"{path} is as wanted")
        return
    yield replace(path, old, content, confirm_seconds=CONFIRM_SECONDS)
    yield FunctionCommand(keep_or_restore, [path, old["exists"]], {})


def keep_or_restore(state: State, host: Host, path: str, existed: bool) -> bool:
    """Confirm a replaced file over a new session while the old one is held, else put it back."""
    arguments = _connector_arguments(state, host)
    try:
        with fresh(host) as connector:
            kept, output = connector.run_shell_command(confirm(path), **arguments)
        reason = output.stderr
    except Exception as error:  # refused, reset, timed out: all of it means "locked out"
        kept, reason = False, str(error)
    if kept:
        return True
    try:
        restored, output = host.run_shell_command(restore(path, existed), **arguments)
        failure = output.stderr
    except Exception as error:  # the old session is gone, too
        restored, failure = False, str(error)
    outcome = (
        "it was put back as before"
        if restored
        else f"it could not be put back ({failure}); the node does so itself "
        f"{CONFIRM_SECONDS} s after it was written"
    )
    logger.error(f"{host.print_prefix}no new session with {path} in place ({reason}): {outcome}")
    return False


def _connector_arguments(state: State, host: Host) -> dict[str, Any]:
    """Return the sudo and like arguments of the running operation, with a time limit."""
    data = state.get_op_data_for_host(host, cast(str, host.executing_op_hash))
    arguments = dict(data.global_arguments)
    chosen = {key: arguments[key] for key in CONNECTOR_ARGUMENT_KEYS if key in arguments}
    return {**chosen, "_timeout": SESSION_SECONDS, "_stdin": None}

"""Confirming a replaced file: kept when a new session can be opened with it, else put back."""

from __future__ import annotations

from collections.abc import Callable

from pyinfra import logger
from pyinfra.api import Host, State
from pyinfra.connectors.base import BaseConnector

from deploy.arguments import of_operation
from deploy.replacement import confirm, restore
from drift.report.visible import visible
from facts.session import fresh

# How long the node waits for a new session to confirm a change before it takes it back.
CONFIRM_SECONDS = 60
SESSION_SECONDS = 20
# Says what is wrong with a new session; empty where nothing is.
Complaint = Callable[[Host, BaseConnector], str]


def keep_or_restore(
    state: State,
    host: Host,
    path: str,
    after: str = "",
    complaint: Complaint | None = None,
    user: str = "",
) -> bool:
    """Confirm a replaced file over a new session while the old one is held, else put it back.

    `after` is the sha256 of the file as it was written; `user` is whose home it lies in.
    """
    arguments = of_operation(state, host, SESSION_SECONDS)
    try:
        with fresh(host) as connector:
            reason = complaint(host, connector) if complaint else ""
            kept = False
            if not reason:
                kept, output = connector.run_shell_command(confirm(path, after, user), **arguments)
                reason = f"no new session with {path} in place ({output.stderr})"
    except Exception as error:  # refused, reset, timed out: all of it means "locked out"
        kept, reason = False, f"no new session with {path} in place ({error})"
    if kept:
        return True
    try:
        restored, output = host.run_shell_command(restore(path, user), **arguments)
        failure = output.stderr
    except Exception as error:  # the old session is gone, too
        restored, failure = False, str(error)
    outcome = (
        "it was put back as before"
        if restored
        else f"it could not be put back ({failure}); the node does so itself "
        f"{CONFIRM_SECONDS} s after it was written"
    )
    logger.error(f"{host.print_prefix}{visible(reason)}: {outcome}")
    return False

"""Confirms a replaced file: kept if new sessions can be opened with it, else restored."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyinfra import logger
from pyinfra.api import Host, State
from pyinfra.connectors.base import BaseConnector

from gpu_node.deploy.engine.rights import of_operation
from gpu_node.deploy.files.replace import confirm, restore
from gpu_node.deploy.files.trial import SESSION_SECONDS, trouble
from gpu_node.facts.ask.execute import NoAnswer, Rights, execute
from gpu_node.facts.ask.session import fresh
from gpu_node.inventories.escape import visible

# How long the node waits for a new session to confirm a change before it undoes the change.
CONFIRM_SECONDS = 60
RESTORED = "the earlier file was restored"
# Returns what is wrong with a new session; empty if nothing is.
Complaint = Callable[[Host, BaseConnector], str]


def keep_or_restore(
    state: State,
    host: Host,
    path: str,
    after: str = "",
    complaint: Complaint | None = None,
    user: str = "",
    accounts: Sequence[str] = (),
) -> bool:
    """Confirm a replaced file over new sessions while the old one stays open, else restore it.

    `after` is the sha256 of the file as it was written; `user` owns the home it is in, and
    `accounts` are other accounts whose sessions it affects.
    """
    rights = of_operation(state, host)
    reason = not_kept(host, path, rights, after, complaint, user, accounts)
    if not reason:
        return True
    outcome = put_back(host, path, user, rights)
    logger.error(f"{host.print_prefix}{visible(reason)}: {outcome}")
    return False


def not_kept(
    host: Host,
    path: str,
    rights: Rights,
    after: str = "",
    complaint: Complaint | None = None,
    user: str = "",
    accounts: Sequence[str] = (),
) -> str:
    """Confirm a replaced file over a new session; return why it is not kept, or nothing."""
    try:
        with fresh(host) as connector:
            reason = complaint(host, connector) if complaint else ""
            for account in dict.fromkeys((user, *accounts)):
                reason = reason or trouble(host, connector, account, rights)
            if reason:
                return reason
            command = confirm(path, after, user)
            kept, output = execute(connector, command, SESSION_SECONDS, rights)
            return "" if kept else f"no new session with {path} in place ({output.stderr})"
    except Exception as error:  # refused, reset, timed out: all of it means "locked out"
        return f"no new session with {path} in place ({error})"


def put_back(host: Host, path: str, user: str, rights: Rights) -> str:
    """Restore a replaced file over the open session; return the result as text."""
    try:
        command = restore(path, user)
        restored, output = execute(host.connector, command, SESSION_SECONDS, rights)
        failure = output.stderr
    except NoAnswer as error:  # the old session is lost, too
        restored, failure = False, str(error)
    if restored:
        return RESTORED
    return left_to_node(visible(failure))


def left_to_node(failure: str) -> str:
    """Return what follows where a replaced file could not be restored."""
    return (
        f"it could not be restored ({failure}); the node restores it {CONFIRM_SECONDS} s after it "
        "was written"
    )

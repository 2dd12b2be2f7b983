"""Confirms a replaced file: kept if new sessions can be opened with it, else restored."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import gevent
from pyinfra import logger
from pyinfra.api import Host, State
from pyinfra.connectors.base import BaseConnector

from gpu_node.deploy.engine.run import of_inventory, of_operation
from gpu_node.deploy.files.replace import confirm, reread, restore
from gpu_node.deploy.files.trial import SESSION_SECONDS, trouble
from gpu_node.facts.ask.execute import NoAnswer, Rights, execute
from gpu_node.facts.ask.patience import GivenUp
from gpu_node.facts.ask.session import fresh
from gpu_node.facts.limits.unsettled import Waiting
from gpu_node.facts.probe.request import request_of
from gpu_node.inventories.escape import visible

# How long the node waits for a new session to confirm a change before it undoes the change.
CONFIRM_SECONDS = 60
# How long a node may delay the others while its unconfirmed changes are settled.
ALL_SECONDS = 60
RESTORED = "the earlier file was restored"
# Returns what is wrong with a new session; empty if nothing is.
Complaint = Callable[[Host, BaseConnector], str]


@dataclass(frozen=True)
class Trial:
    """A replaced file, which stays if new sessions can be opened with it.

    `after` is the sha256 of the file as it was written; `user` owns the home it is in, and
    `accounts` are other accounts whose sessions it affects. `is_reread`: its daemon has not read it
    yet.
    """

    path: str
    after: str = ""
    user: str = ""
    accounts: Sequence[str] = ()
    complaint: Complaint | None = None
    is_reread: bool = False


def keep_or_restore(state: State, host: Host, trial: Trial) -> bool:
    """Confirm a replaced file over new sessions while the old one stays open, else restore it."""
    failure = settled(host, trial, of_operation(state, host))
    if failure:
        logger.error(f"{host.print_prefix}{failure}")
    return not failure


def settled(host: Host, trial: Trial, rights: Rights) -> str:
    """Confirm a replaced file over a new session, else restore it; return why, or nothing."""
    reason = _unread(host, trial, rights) if trial.is_reread else ""
    reason = reason or not_kept(host, trial, rights)
    return reason and f"{visible(reason)}: {_put_back(host, trial, rights)}"


def _unread(host: Host, trial: Trial, rights: Rights) -> str:
    """Have a daemon read an unconfirmed file; return why it did not."""
    try:
        done, output = execute(host.connector, reread(trial.path), SESSION_SECONDS, rights)
    except NoAnswer as error:
        return str(error)
    return "" if done else output.stderr or "its daemon did not read it"


def not_kept(host: Host, trial: Trial, rights: Rights) -> str:
    """Confirm a replaced file over a new session; return why it is not kept, or nothing."""
    try:
        with fresh(host) as connector:
            reason = trial.complaint(host, connector) if trial.complaint else ""
            for account in dict.fromkeys((trial.user, *trial.accounts)):
                reason = reason or trouble(host, connector, account, rights)
            if reason:
                return reason
            command = confirm(trial.path, trial.after, trial.user)
            kept, output = execute(connector, command, SESSION_SECONDS, rights)
            reason = "" if kept else output.stderr
    except Exception as error:  # refused, reset, timed out: all of it means "locked out"
        kept, reason = False, str(error)
    return "" if kept else f"no new session with {trial.path} in place ({reason})"


def _put_back(host: Host, trial: Trial, rights: Rights) -> str:
    """Restore a replaced file over the open session; return the result as text."""
    try:
        command = restore(trial.path, trial.user)
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


def settle(host: Host, waiting: Sequence[Waiting]) -> bool:
    """Confirm each change over a new session, else undo it; return whether any was settled.

    A dry run settles nothing. Raises GivenUp if it takes too long: the node itself undoes what is
    not confirmed.
    """
    if "--dry" in sys.argv:
        return False
    paths = ", ".join(dict.fromkeys(each.path for each in waiting))
    late = GivenUp(
        f"unconfirmed changes of an earlier run were not settled within {ALL_SECONDS} s ({paths}); "
        f"nothing else was changed: look at the node, and run again with --limit {host.name}"
    )
    with gevent.Timeout(ALL_SECONDS, late):
        for each in waiting:
            _settle(host, each)
    return bool(waiting)


def _settle(host: Host, each: Waiting) -> None:
    rights = of_inventory(host)
    subject = f"{host.print_prefix}{visible(each.path)}: an earlier run was cut off"
    # A file in a home affects only its owner; the others affect all accounts.
    accounts = () if each.user else (request_of(host.data.dict()).user,)
    # A reboot or a killed run may have kept its daemon from reading it.
    trial = Trial(each.path, each.after, each.user, accounts, is_reread=True)
    failure = settled(host, trial, rights)
    if failure:
        logger.error(f"{subject}: {failure}")
    else:
        logger.warning(f"{subject}: a new session confirmed its change")

"""Unconfirmed changes of interrupted runs: settled before everything else."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import gevent
from pyinfra import logger
from pyinfra.api import Host

from gpu_node.deploy.engine.rights import of_inventory
from gpu_node.deploy.files.confirm import not_kept, put_back
from gpu_node.deploy.files.replace import reread
from gpu_node.deploy.files.trial import SESSION_SECONDS
from gpu_node.facts.ask.execute import NoAnswer, Rights, execute
from gpu_node.facts.ask.patience import GivenUp
from gpu_node.facts.limits.unsettled import Waiting
from gpu_node.facts.probe.request import request_of
from gpu_node.inventories.escape import visible

# How long a node may delay the others while its unconfirmed changes are settled.
ALL_SECONDS = 60


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
    reason = _unread(host, each.path, rights) or not_kept(
        host, each.path, rights, each.after, user=each.user, accounts=accounts
    )
    if not reason:
        logger.warning(f"{subject}: a new session confirmed its change")
        return
    outcome = put_back(host, each.path, each.user, rights)
    logger.error(f"{subject}: {visible(reason)}: {outcome}")


def _unread(host: Host, path: str, rights: Rights) -> str:
    """Make a daemon read the file, because a reboot or a killed run may have prevented that."""
    try:
        done, output = execute(host.connector, reread(path), SESSION_SECONDS, rights)
    except NoAnswer as error:
        return str(error)
    return "" if done else output.stderr or "its daemon did not read it"

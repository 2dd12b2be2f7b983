"""Tries a login of an account after a change that affects it: by SSH, else by a session of su."""

from pyinfra import logger
from pyinfra.api import Host
from pyinfra.connectors.base import BaseConnector

from gpu_node.deploy.engine.run import Slot, run_of
from gpu_node.deploy.engine.scripts import script
from gpu_node.facts.ask.execute import Rights, execute
from gpu_node.facts.ask.session import fresh
from gpu_node.facts.probe.training_user import AS_USER, HOME
from gpu_node.inventories.escape import visible

# An account that does not exist cannot be locked out.
_WELL = ("login", "absent")
# How long a new session may take to open, and each command in it.
SESSION_SECONDS = 20
# Nodes, each with an account that does not let this machine in. Each failed login counts against
# this machine's address (PerSourcePenalties of sshd), so none is tried twice.
_CLOSED: Slot[set[tuple[str, str]]] = Slot(set)


def trouble(host: Host, connector: BaseConnector, user: str, rights: Rights) -> str:
    """Return why no new session of an account opens on a host; empty if one does.

    `connector` is a new session of the SSH user: nothing else is tried for that account. Another
    account logs in from the node to itself with its own key, or from here. If neither is possible,
    a session of su must open there, and that is logged.
    """
    if user in ("", _ssh_user(host)):
        return ""
    command = script("trial", user=user, as_user=AS_USER, home_of=HOME)
    done, output = execute(connector, command, SESSION_SECONDS, rights)
    outcome = output.stdout_lines[-1] if output.stdout_lines else ""
    if done and outcome in _WELL:
        return ""
    if _opens(host, user):
        return ""
    if not done:
        return output.stderr or f"cannot open a session of {user}"
    why = visible(outcome.removeprefix("session "))
    logger.warning(
        f"{host.print_prefix}{user}: no login was tried ({why}): a session of su opens, and "
        f"{_ssh_user(host) or 'the SSH user'} logs in"
    )
    return ""


def _ssh_user(host: Host) -> str:
    return host.data.get("ssh_user") or ""


def _opens(host: Host, user: str) -> bool:
    """Whether this machine can log in to an account by key; never with the SSH user's password."""
    closed = run_of(host.state).of(_CLOSED)
    if (host.name, user) in closed:
        return False
    try:
        with fresh(host, user):
            return True
    except Exception:  # paramiko, sockets and pyinfra: many classes with the same meaning
        closed.add((host.name, user))
        return False

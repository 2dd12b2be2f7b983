"""Refused keys and connections: the next step, where pyinfra only reports what failed."""

from __future__ import annotations

import re
import shlex
from typing import TypeGuard

from paramiko import (
    AuthenticationException,
    BadHostKeyException,
    PasswordRequiredException,
    PKey,
    SSHException,
)
from paramiko.ssh_exception import NoValidConnectionsError

from gpu_node.inventories.connection.client import RefusedJumpHost
from gpu_node.inventories.connection.handshake import UnknownHostKey
from gpu_node.inventories.connection.known_hosts import SSH_PORT

_UNKNOWN = re.compile(r"No host key for (\S+) found")
# From the program ssh, which shows a fingerprint and no key (facts/ask/via/login.py).
_OFFERED = re.compile(r"Host key changed: offered (SHA256:[A-Za-z0-9+/=]+|unknown)")
_LOOK = (
    "compare with what the node shows on its console: "
    "ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub"
)
# sshd writes the reason only to its log.
_NOT_LET_IN = (
    "its sshd accepts none of the offered keys: no such user is there, the key is not in that "
    "user's ~/.ssh/authorized_keys, or other users can write to ~, ~/.ssh or that file "
    "(StrictModes; fix it with chmod go-w), or, where the user is root, sshd refuses its keys "
    "(PermitRootLogin no, or forced-commands-only: set prohibit-password); on its console, check "
    "ls -ld ~ ~/.ssh ~/.ssh/authorized_keys, sshd -T | grep -i permitrootlogin, and the log of "
    "sshd (journalctl -t sshd, /var/log/secure or auth.log); in the inventory a host can have a "
    "user of its own"
)

_LOCKED = (
    "the key has a passphrase and was not offered: only an agent opens it; "
    'eval "$(ssh-agent)" if none runs, ssh-add, then the same command'
)


def refusal(error: BaseException | None) -> SSHException | None:
    """Return the refusal of a host key, a login or an own key that pyinfra's error stands for."""
    for each in (error, error.__context__ if error else None):
        if isinstance(each, RefusedJumpHost):  # not the node's own
            return None
        if isinstance(each, PasswordRequiredException) or _is_login(each) or _is_change(each):
            return each
        if isinstance(each, SSHException) and _UNKNOWN.search(str(each)):
            return each
    return None


def _is_login(error: BaseException | None) -> TypeGuard[AuthenticationException]:
    """Whether the node refused a login; a key that wants a passphrase was never offered."""
    is_own = isinstance(error, PasswordRequiredException)
    return isinstance(error, AuthenticationException) and not is_own


def _is_change(error: BaseException | None) -> TypeGuard[SSHException]:
    """Whether the node offered another key than the pinned one."""
    is_of_ssh = isinstance(error, SSHException) and _OFFERED.fullmatch(str(error))
    return isinstance(error, BadHostKeyException) or bool(is_of_ssh)


def next_step(refused: SSHException, inventory: str, node: str) -> str:
    """Say what was refused, by fingerprints, and what to do; nothing is ever accepted by itself."""
    if _is_login(refused):
        return _NOT_LET_IN
    if isinstance(refused, PasswordRequiredException):
        return _LOCKED
    keys, offered = _offered(refused)
    command = f"gpu-node host-key {shlex.quote(inventory)} {shlex.quote(node)}"
    then = f"{_LOOK}; then: {command}{f' --accept {offered}' if offered else ''}"
    if not _is_change(refused):
        return f"its host key {keys}is not pinned; {then}"
    return f"its host key has changed: {keys}if it was reinstalled, {then}"


def _offered(refused: SSHException) -> tuple[str, str]:
    """Return the words about an offered key, and its fingerprint, empty where ssh shows none."""
    if isinstance(refused, UnknownHostKey):
        return f"{_shown(refused.key)} ", refused.key.fingerprint
    if isinstance(refused, BadHostKeyException):
        keys = f"pinned {_shown(refused.expected_key)}, offered {_shown(refused.key)}; "
        return keys, refused.key.fingerprint
    match = _OFFERED.fullmatch(str(refused))
    if match is None or match[1] == "unknown":
        return "", ""
    return f"offered {match[1]}; ", match[1]


def explained(message: str, refused: SSHException, inventory: str, node: str) -> str:
    """Return a message with the next step behind it; of a changed key, the step has all of it."""
    step = next_step(refused, inventory, node)
    return step if _is_change(refused) else f"{message}: {step}"


def _shown(key: PKey) -> str:
    return f"{key.get_name()} {key.fingerprint}"


def look(error: BaseException | None, port: int = SSH_PORT) -> str:
    """Return what to look at, empty for another error; paramiko's names the port itself."""
    if isinstance(error, NoValidConnectionsError):
        ((_, port, *_), error), *_ = error.errors.items()
    if isinstance(error, ConnectionRefusedError):
        return "is sshd running there, or on another port?"
    if isinstance(error, TimeoutError):
        return f"is it switched on, is the address right, does a firewall let port {port} through?"
    if isinstance(error, OSError):
        return "is it switched on, is the address right, is there a route to it from this machine?"
    return ""

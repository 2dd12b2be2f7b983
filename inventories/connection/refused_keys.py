"""Refused keys, a host's or one's own: the next step, where pyinfra only reports the refusal."""

from __future__ import annotations

import logging
import re
import shlex
import sys
from collections.abc import Mapping
from typing import TypeGuard

from paramiko import (
    AuthenticationException,
    BadHostKeyException,
    PasswordRequiredException,
    PKey,
    SSHException,
)
from typing_extensions import override

from gpu_node.inventories.connection.handshake import RefusedJumpHost, UnknownHostKey

# The end of pyinfra's message about a changed host key.
_CHANGED = re.compile(r"SSH host key error( \(.*\))?$")
_UNKNOWN = re.compile(r"No host key for (\S+) found")
# From the program ssh, which shows a fingerprint and no key (facts/ask/via/login.py).
_OFFERED = re.compile(r"Host key changed: offered (SHA256:[A-Za-z0-9+/=]+|unknown)")
_LOOK = (
    "compare with what the node shows on its console: "
    "ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub"
)
# sshd writes the reason only to its log.
_NOT_LET_IN = (
    "its sshd accepts none of the offered keys: the key is not in that user's "
    "~/.ssh/authorized_keys, or other users can write to ~, ~/.ssh or that file (StrictModes; "
    "fix it with chmod go-w), or sshd refuses root's keys (PermitRootLogin no, or "
    "forced-commands-only: set prohibit-password); on its console, check ls -ld ~ ~/.ssh "
    "~/.ssh/authorized_keys, sshd -T | grep -i permitrootlogin, and the log of sshd "
    "(journalctl -t sshd, /var/log/secure or auth.log)"
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
    found = _OFFERED.fullmatch(str(refused))
    if found is None or found[1] == "unknown":
        return "", ""
    return f"offered {found[1]}; ", found[1]


def explained(message: str, refused: SSHException, inventory: str, node: str) -> str:
    """Return pyinfra's message with the next step behind it, or in place of its last words."""
    step = next_step(refused, inventory, node)
    if _is_change(refused) and (head := _CHANGED.search(message)):
        return message[: head.start()] + step
    return f"{message}: {step}"


def _shown(key: PKey) -> str:
    return f"{key.get_name()} {key.fingerprint}"


class _Explaining(logging.Filter):
    """Adds the next step to what pyinfra logs about a refused key.

    It takes away pyinfra's own advice, which is to forget the pinned key unseen.
    """

    def __init__(self, inventory: str, names: Mapping[str, str]) -> None:
        super().__init__()
        self.inventory, self.names = inventory, names

    @override
    def filter(self, record: logging.LogRecord) -> bool:
        error = sys.exc_info()[1]
        refused = refusal(error)
        if refused is None:
            return True
        if record.levelno < logging.ERROR or error is refused:
            return False
        node = self.names.get(_address(refused), "NODE")
        record.msg = explained(record.getMessage(), refused, self.inventory, node)
        record.args = ()
        return True


def _address(refused: SSHException) -> str:
    """The address that was connected to, without its port."""
    if isinstance(refused, BadHostKeyException):
        return str(refused.hostname)
    found = _UNKNOWN.search(str(refused))
    name = found[1] if found else ""
    return re.sub(r"^\[(.*)\]:\d+$", r"\1", name)


def explain(inventory: str, names: Mapping[str, str]) -> None:
    """Add the next step to pyinfra's log; `names` are those of the nodes by their addresses."""
    logger = logging.getLogger("pyinfra")
    for before in [each for each in logger.filters if isinstance(each, _Explaining)]:
        logger.removeFilter(before)
    logger.addFilter(_Explaining(inventory, names))

"""ssh as a program: its command line for a node, and its errors in the words of a session."""

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

from paramiko import AuthenticationException, SSHException
from pyinfra.api.exceptions import ConnectError

from gpu_node.facts.ask.gather import CONNECT_SECONDS
from gpu_node.facts.ask.jump_hosts import by_jump_hosts
from gpu_node.facts.ssh.options import STRICT

# The exit code of ssh for an error of its own.
FAILED = 255
# A user's ssh_config may share a connection, or keep one open behind the command.
ALONE = (
    *("-o", f"ConnectTimeout={CONNECT_SECONDS}", "-o", "ConnectionAttempts=1"),
    *("-o", "ControlMaster=no", "-o", "ControlPath=none", "-o", "ControlPersist=no"),
    *("-o", "RequestTTY=no", "-o", "RemoteCommand=none", "-o", "LogLevel=ERROR"),
    *("-o", "UpdateHostKeys=no"),  # a report pins no key
    *("-o", "ServerAliveInterval=10", "-o", "ServerAliveCountMax=3"),
)
_NO_ROUTE = re.compile(r"ssh: connect to host (\S+) port (\d+): (.*)")
_NO_NAME = re.compile(r"ssh: Could not resolve hostname (\S+): (.*)")
_UNKNOWN = re.compile(r"No \S+ host key is known for (\S+) and you have requested strict checking")
_OFFERED = re.compile(r"^(SHA256:[A-Za-z0-9+/=]+)\.?$")
_DENIED = re.compile(r"Permission denied \(")
# As our own connection says.
_CORRECT = (
    "next: correct the node's address in the inventory, or the name in this machine's DNS or "
    "/etc/hosts"
)
# Lines that follow an error and have no reason.
_AFTER = ("Host key verification failed.", "Connection closed by")


def words(name: str, data: Mapping[str, Any]) -> list[str]:
    """Return the command line of ssh for a node, to which the remote command is added.

    ValueError: the jump hosts of ssh's configuration cannot be used.
    """
    config = _path(data["ssh_config_file"]) if data.get("ssh_config_file") else ""
    host = str(data.get("ssh_hostname") or name)
    options = ["ssh", *STRICT, *ALONE, *(("-F", config) if config else ()), *named(data)]
    return [*options, *by_jump_hosts([*options, "--"], host, config), "--", host]


def named(data: Mapping[str, Any]) -> list[str]:
    """Return ssh's options for what the inventory names: known_hosts, key, user and port."""
    file, key = data.get("ssh_known_hosts_file"), data.get("ssh_key")
    return [
        *(("-o", f'UserKnownHostsFile="{_path(file).replace("%", "%%")}"') if file else ()),
        *(("-o", "IdentitiesOnly=yes", "-i", _path(key)) if key else ()),
        *(("-l", str(data["ssh_user"])) if data.get("ssh_user") else ()),
        *(("-p", str(data["ssh_port"])) if data.get("ssh_port") else ()),
    ]


def failure(errors: Sequence[str], data: Mapping[str, Any]) -> ConnectError:
    """Return why ssh had no session with a node, in the words of `gather` where it has some.

    Its `__context__` is the refusal of a key, or why nothing answers, where it is one of them.
    """
    text = "\n".join(errors)
    if match := _UNKNOWN.search(text):
        refused = SSHException(f"No host key for {match[1]} found in known_hosts")
        return _because(f"SSH error ({refused})", refused)
    if "REMOTE HOST IDENTIFICATION HAS CHANGED" in text or "host key has changed" in text:
        offered = next((each[1] for line in errors if (each := _OFFERED.match(line))), "unknown")
        changed = SSHException(f"Host key changed: offered {offered}")
        return _because("SSH host key error", changed)
    if _DENIED.search(text):
        user = data.get("ssh_user")
        given = [f"username={user}"] if user else []
        given += [f"key={data['ssh_key']}"] if data.get("ssh_key") else []
        why = f"Authentication error ({', '.join(given)}) (Authentication failed.)"
        return _because(why, AuthenticationException(text))
    if match := _NO_ROUTE.search(text):
        if "timed out" in match[3]:
            return _because("Could not connect (timed out)", TimeoutError())
        cause = ConnectionRefusedError if "refused" in match[3] else OSError
        why = f"Could not connect (Unable to connect to port {match[2]} on {match[1]})"
        return _because(why, cause())
    if match := _NO_NAME.search(text):
        return ConnectError(f"Could not resolve hostname {match[1]!r} ({match[2]}); {_CORRECT}")
    reasons = [error for error in errors if not error.startswith(_AFTER)] or list(errors)
    return ConnectError(f"SSH error ({reasons[-1] if reasons else 'ssh ended without a reason'})")


def _because(words: str, cause: Exception) -> ConnectError:
    error = ConnectError(words)
    error.__context__ = cause
    return error


def _path(file: object) -> str:
    return os.path.abspath(os.path.expanduser(str(file)))

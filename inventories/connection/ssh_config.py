"""The user's ssh_config: where a connection goes that names one of its aliases."""

from __future__ import annotations

import os
from pathlib import Path

from paramiko import SSHException
from pyinfra.connectors.sshuserclient.client import get_ssh_config

from gpu_node.inventories.errors import quoted, reason, worded
from gpu_node.inventories.regular_file import content

_DEFAULT_FILE = "~/.ssh/config"
_LAST_PORT = 65535
# What pyinfra reads as a number, and the largest one.
_NUMBERS = {"Port": _LAST_PORT, "ConnectTimeout": 10**6, "ServerAliveInterval": 10**6}


def _check_kind(file: Path) -> None:
    """Raise OSError for what pyinfra would wait for, or not end to read: a named pipe, a folder."""
    if file.exists() and str(file) != os.devnull:
        content(file)


def destination(name: str, file: str | None = None) -> tuple[str, int | None]:
    """Return the host and the port that ssh_config gives for a name; the name itself, and None.

    SSHException: ssh_config is not readable as one, or a value that pyinfra needs is no number.
    """
    shown = file or _DEFAULT_FILE
    try:
        _check_kind(Path(shown).expanduser())
        config = get_ssh_config(file)
    except UnicodeDecodeError:
        problem = worded("bytes that are not UTF-8 text", "", "text")
        raise SSHException(f"{shown}: {problem}") from None
    except OSError as error:
        raise SSHException(f"{shown}: {worded(reason(error), 'cannot be read')}") from None
    if config is None:
        return name, None
    found = config.lookup(name)
    for key, most in _NUMBERS.items():
        written = found.get(key.lower())
        if written is not None and not (written.isdecimal() and 0 <= int(written) <= most):
            allowed = f"a number of at most {most}"
            problem = worded(quoted(written), f"for {name}", allowed, "correct that line")
            raise SSHException(f"{shown}: {key}: {problem}")
    port = found.get("port")
    return found.get("hostname", name), int(port) if port else None

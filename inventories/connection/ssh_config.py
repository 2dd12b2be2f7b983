"""The user's ssh_config: where a connection goes that names one of its aliases."""

from __future__ import annotations

from paramiko import SSHException
from pyinfra.connectors.sshuserclient.client import get_ssh_config

_DEFAULT_FILE = "~/.ssh/config"
_LAST_PORT = 65535
# What pyinfra reads as a number, and the largest one.
_NUMBERS = {"Port": _LAST_PORT, "ConnectTimeout": 10**6, "ServerAliveInterval": 10**6}


def destination(name: str, file: str | None = None) -> tuple[str, int | None]:
    """Return the host and the port that ssh_config gives for a name; the name itself, and None.

    SSHException: ssh_config is not readable as one, or a value that pyinfra needs is no number.
    """
    shown = file or _DEFAULT_FILE
    try:
        config = get_ssh_config(file)
    except UnicodeDecodeError:
        raise SSHException(f"{shown}: found bytes that are not UTF-8 text; allowed: text") from None
    except OSError as error:
        raise SSHException(f"{shown}: cannot be read: {error.strerror}") from None
    if config is None:
        return name, None
    found = config.lookup(name)
    for key, most in _NUMBERS.items():
        written = found.get(key.lower())
        if written is not None and not (written.isdecimal() and 0 <= int(written) <= most):
            allowed = f"a number of at most {most}"
            raise SSHException(
                f"{shown}: {key}: found {written!r} for {name}; allowed: {allowed}; next: correct "
                "that line"
            )
    port = found.get("port")
    return found.get("hostname", name), int(port) if port else None

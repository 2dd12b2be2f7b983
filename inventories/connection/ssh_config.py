"""The user's ssh_config: where a connection goes that names one of its aliases."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from paramiko import SSHException
from pyinfra.connectors.sshuserclient.config import SSHConfig

from gpu_node.inventories.errors import quoted, reason, worded
from gpu_node.inventories.regular_file import NOT_UTF8, content

_DEFAULT_FILE = "~/.ssh/config"
_LAST_PORT = 65535
# int() refuses what has thousands of digits.
_LONGEST_NUMBER = 20
# What pyinfra reads as a number, and the largest one.
_NUMBERS = {"Port": _LAST_PORT, "ConnectTimeout": 10**6, "ServerAliveInterval": 10**6}

# pyinfra's words for a file that it has included before.
_LOOP = re.compile(r"Include loop detected.*?: (.*)", re.DOTALL)


@cache
def _is_met(command: str) -> bool:
    """Whether the command of a `Match exec` ends with 0; it runs once, as ssh runs it."""
    shell = os.environ.get("SHELL") or "/bin/sh"
    quiet = subprocess.DEVNULL
    try:
        return subprocess.run([shell, "-c", command], stdin=quiet, stdout=quiet).returncode == 0
    except OSError:
        return False


class _Config(SSHConfig):
    """pyinfra's ssh_config, whose `Match exec` has the shell run a command, as ssh has.

    pyinfra gives the command to the shell as the name of a script: it never succeeds.
    """

    def _does_match(
        self, match_list: list[dict[str, Any]], target_hostname: str, *others: Any
    ) -> Any:
        kinds = [each["type"] for each in match_list]
        if "exec" not in kinds:
            return super()._does_match(match_list, target_hostname, *others)  # type: ignore[misc]
        at = kinds.index("exec")
        before, command, after = match_list[:at], match_list[at], match_list[at + 1 :]
        if before and not self._does_match(before, target_hostname, *others):
            return False
        _, _, options = others
        written = self._tokenize(  # type: ignore[attr-defined]
            options, target_hostname, "match-exec", command["param"]
        )
        if _is_met(written) is command["negate"]:
            return False
        return self._does_match(after, target_hostname, *others) if after else [command]


def parsed(file: str | None = None) -> SSHConfig:
    """Return an ssh_config, read once; one that does not exist says nothing of any host."""
    return _parsed(Path(file or _DEFAULT_FILE).expanduser())


@cache
def _parsed(path: Path) -> SSHConfig:
    config = _Config()
    if path.exists():
        with path.open(encoding="utf-8") as written:
            config.parse(written)  # type: ignore[no-untyped-call]
    return config


class BadConfig(SSHException):
    """An ssh_config that pyinfra cannot use; str() begins with the file."""


def settings(name: str, file: str | None = None) -> dict[str, Any]:
    """Return what ssh_config has for a name, by lower-case keys; nothing without a file.

    BadConfig: ssh_config is not readable as one, or a value that pyinfra needs is no number.
    """
    shown = file or _DEFAULT_FILE
    try:
        path = Path(shown).expanduser()
        if path.exists() and str(path) != os.devnull:
            content(path)  # not what pyinfra would wait for, or not end to read: a named pipe
        options = parsed(shown).lookup(name)
    except UnicodeDecodeError:
        problem = worded(NOT_UTF8, "", "text")
        raise BadConfig(f"{shown}: {problem}") from None
    except OSError as error:
        raise BadConfig(f"{shown}: {worded(reason(error), 'cannot be read')}") from None
    except SSHException as error:
        raise BadConfig(f"{shown}: {worded(quoted(str(error)), 'cannot be read')}") from None
    except Exception as error:
        # pyinfra has no class of its own for this one.
        if not (loop := _LOOP.fullmatch(str(error))):
            raise
        problem = worded(repr(loop[1]), "included twice, or by itself", "each file once")
        raise BadConfig(f"{shown}: Include: {problem}") from None
    numbers = [(key, options.get(key.lower()), most) for key, most in _NUMBERS.items()]
    numbers += [("ProxyJump", port, _LAST_PORT) for port in _hop_ports(options)]
    for key, written, most in numbers:
        if written is not None and not (_is_number(written) and int(written) <= most):
            allowed = f"a number of at most {most}"
            problem = worded(quoted(written), f"for {name}", allowed, "correct that line")
            raise BadConfig(f"{shown}: {key}: {problem}")
    return dict(options)


def _hop_ports(options: Mapping[str, Any]) -> list[str]:
    """Return the ports that ProxyJump names; one with more colons is an IPv6 address alone."""
    hops = [hop.rpartition("@")[2] for hop in (options.get("proxyjump") or "").split(",")]
    return [hop.partition(":")[2] for hop in hops if hop.count(":") == 1]


def _is_number(written: str) -> bool:
    return written.isdecimal() and len(written) <= _LONGEST_NUMBER


def destination(name: str, file: str | None = None) -> tuple[str, int | None]:
    """Return the host and the port that ssh_config gives for a name; the name itself, and None.

    Raises BadConfig, as `settings` does.
    """
    options = settings(name, file)
    port = options.get("port")
    return options.get("hostname", name), int(port) if port else None


def login(name: str, file: str | None = None) -> tuple[str | None, int | None, bool]:
    """Return the user and the port that ssh_config has for a name, and whether it is an alias.

    An alias is a name that ssh_config has an address for: what it says is about this server, not
    about all. Raises BadConfig, as `settings` does.
    """
    options = settings(name, file)
    port = int(options["port"]) if "port" in options else None
    return options.get("user"), port, options.get("hostname", name) != name


def keys(name: str, file: str | None = None) -> list[Path]:
    """Return the private keys that ssh_config names for a name, as far as the files exist.

    Raises BadConfig, as `settings` does.
    """
    written = settings(name, file).get("identityfile") or []
    listed = [written] if isinstance(written, str) else written
    return [path for path in (Path(each).expanduser() for each in listed) if path.is_file()]

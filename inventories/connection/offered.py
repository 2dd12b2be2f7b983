"""Host keys that a node offers: a handshake for each proves that the node has it."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping
from typing import Any

from paramiko import PKey, SSHException
from paramiko.ssh_exception import IncompatiblePeer

from gpu_node.inventories.connection.client import Client
from gpu_node.inventories.connection.transport import BoundedTransport

SECONDS = 10
# paramiko's error for a handshake that has not ended.
UNFINISHED = "No existing session"
# A handshake returns one key; a server can have one of each of these kinds (ECDSA: of each curve).
_KINDS = (
    ("ssh-ed25519",),
    ("ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521"),
    ("rsa-sha2-512", "rsa-sha2-256"),
)


class NoHostKey(Exception):
    """A node that cannot be reached, or that offers no key; str() is the reason."""


def offered(data: Mapping[str, Any]) -> list[PKey]:
    """Return the host keys of the node in host data, over the path that pyinfra would use."""
    try:
        keys = [key for kinds in _KINDS for key in _of(data, kinds)]
    except (OSError, SSHException, EOFError) as error:
        raise NoHostKey(str(error).replace("[Errno None] ", "") or type(error).__name__) from error
    if not keys:
        raise NoHostKey("it offers no host key of a kind that is known here")
    return keys


def _of(data: Mapping[str, Any], kinds: tuple[str, ...]) -> Iterator[PKey]:
    """Yield the keys of these kinds that the node has."""
    while kinds and (key := _handshake(data, kinds)) is not None:
        yield key
        # A server has at most one RSA key, whatever the algorithm is.
        kinds = tuple(kind for kind in kinds if kind != key.get_name() and "rsa-" not in kind)


def _handshake(data: Mapping[str, Any], kinds: tuple[str, ...]) -> PKey | None:
    """Return the key of one of these kinds; None where the node has none."""
    transport = BoundedTransport(connected(data))
    try:
        transport.banner_timeout = SECONDS
        transport.get_security_options().key_types = kinds
        transport.start_client(timeout=SECONDS)
        return transport.get_remote_server_key()
    except IncompatiblePeer:
        return None
    finally:
        transport.close()


def connected(data: Mapping[str, Any]) -> Any:
    """Return a connection to the node's sshd, through the jump host of ssh_config if there is one.

    Raises OSError, and paramiko's SSHException and EOFError of a jump host.
    """
    given = {"port": data["ssh_port"]} if data.get("ssh_port") else {}
    hostname, config, *_ = Client().parse_config(
        data["ssh_hostname"], given, data.get("ssh_config_file")
    )
    return config.get("sock") or socket.create_connection((hostname, config["port"]), SECONDS)

"""Handshakes that ask for the kinds of host key that are pinned, as OpenSSH's client does.

paramiko asks for the first pinned kind alone, and for an RSA key by the name of its SHA-1
signature, which sshd has not offered since OpenSSH 8.8: it then takes the server's ed25519 key for
a changed one. Of two pinned keys of one kind it compares only the first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from paramiko import HostKeys, PKey, Transport
from pyinfra.connectors import ssh
from pyinfra.connectors.sshuserclient import client
from typing_extensions import override

_RSA = "ssh-rsa"
# The algorithms that prove each kind of key, in the order in which OpenSSH prefers them.
_ALGORITHMS = (
    "ssh-ed25519",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "rsa-sha2-512",
    "rsa-sha2-256",
    _RSA,
)


class PinnedFirst(Transport):
    """A transport that prefers the algorithms of the `pinned` kinds of host key to all others."""

    pinned: frozenset[str] = frozenset()

    @property
    @override
    def preferred_keys(self) -> Sequence[str]:
        given = super().preferred_keys
        first = [each for each in _ALGORITHMS if each in given and _kind(each) in self.pinned]
        return (*first, *(each for each in given if each not in first))


def _kind(algorithm: str) -> str:
    return _RSA if algorithm.startswith("rsa-") else algorithm


class _Keys:
    """The keys that are pinned for one name, as paramiko asks for them."""

    def __init__(self, keys: Sequence[PKey], transport: Transport) -> None:
        self._pinned, self._transport = keys, transport

    def keys(self) -> list[str]:
        """Return their kinds."""
        return [each.get_name() for each in self._pinned]

    def values(self) -> list[PKey]:
        """Return the keys."""
        return list(self._pinned)

    def get(self, kind: str) -> PKey | None:
        """Return the key of a kind that the server has shown; else the first of that kind."""
        same = [each for each in self._pinned if each.get_name() == kind]
        shown = self._transport.get_remote_server_key()
        return next((each for each in same if each == shown), same[0] if same else None)


class _Pins:
    """The pinned keys of every name; the transport asks for the kinds of those looked up."""

    def __init__(self, pinned: HostKeys, transport: PinnedFirst) -> None:
        self._pinned, self._transport = pinned, transport

    def get(self, name: str) -> _Keys | None:
        """Return the keys that are pinned for a name; None where there are none."""
        found = self._pinned.lookup(name)
        if found is None:
            return None
        # Read as a mapping it has one key of each kind.
        entries = vars(found)["_entries"]
        keys = _Keys([each.key for each in entries if each.key], self._transport)
        self._transport.pinned = frozenset(keys.keys())
        return keys


class Client(client.SSHClient):
    """pyinfra's client with the host key algorithms in OpenSSH's order."""

    @override
    def connect(
        self,
        hostname: str,
        *given: Any,
        _pyinfra_ssh_paramiko_connect_kwargs: Mapping[str, Any] | None = None,
        **named: Any,
    ) -> None:
        options = {"transport_factory": self._begin, **(_pyinfra_ssh_paramiko_connect_kwargs or {})}
        named["_pyinfra_ssh_paramiko_connect_kwargs"] = options
        super().connect(hostname, *given, **named)  # type: ignore[no-untyped-call]

    def _begin(self, sock: Any, **options: Any) -> Transport:
        transport = PinnedFirst(sock, **options)
        self._host_keys = _Pins(self._host_keys, transport)
        return transport


def install() -> None:
    """Have pyinfra connect with `Client`, through jump hosts as well."""
    ssh.SSHClient = Client  # type: ignore[misc]
    client.SSHClient = Client  # type: ignore[misc]

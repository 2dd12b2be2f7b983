"""Handshakes that ask for the kinds of host key that are pinned, as OpenSSH's client does.

paramiko asks for the first pinned kind alone, and for an RSA key by the name of its SHA-1
signature, which sshd has not offered since OpenSSH 8.8: it then takes the server's ed25519 key for
a changed one. Of two pinned keys of one kind it compares only the first.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from paramiko import HostKeys, MissingHostKeyPolicy, PKey, SSHClient, SSHException, Transport
from pyinfra.connectors import ssh
from pyinfra.connectors.sshuserclient import client
from typing_extensions import override

from gpu_node.inventories.connection import commands, transport
from gpu_node.inventories.connection.certificates import (
    SUFFIX,
    NotCertified,
    authority_of,
    is_certificate,
    require_certified,
)
from gpu_node.inventories.connection.ssh_config import destination
from gpu_node.inventories.connection.trusted import GLOBAL, Trusted, trusted, without_port

_RSA = "ssh-rsa"
# How often a busy node is looked at while it agrees on keys.
_POLL_SECONDS = 0.1
_CHECKING, _FORWARDING = "_pyinfra_ssh_strict_host_key_checking", "_pyinfra_ssh_forward_agent"
_CONFIG_FILE = "_pyinfra_ssh_config_file"
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
    """A transport that prefers the algorithms of the `pinned` kinds of host key to all others.

    Those of certificates come first where an authority is trusted for the server.
    """

    pinned: frozenset[str] = frozenset()
    is_certified = False

    @property
    @override
    def preferred_keys(self) -> Sequence[str]:
        given = super().preferred_keys
        kinds = [each for each in _ALGORITHMS if each in given]
        first = [f"{each}{SUFFIX}" for each in kinds if self.is_certified]
        first += [each for each in kinds if _kind(each) in self.pinned]
        return (*first, *(each for each in given if each not in first))

    @override
    def start_client(
        self, event: threading.Event | None = None, timeout: float | None = None
    ) -> None:
        """Agree on keys; a node that has sent its version is busy, and gets `banner_timeout`.

        Raises SSHException where that is over; paramiko's own method returns, and the login that
        follows then ends in "No existing session".
        """
        end = time.monotonic() + self.banner_timeout
        super().start_client(event, timeout)
        if event is not None or not self.remote_version:
            return
        while self.active and not self.initial_kex_done:
            if time.monotonic() > end:
                raise SSHException(f"no SSH handshake within {self.banner_timeout:.0f} s")
            time.sleep(_POLL_SECONDS)
        if not self.initial_kex_done:
            raise self.get_exception() or SSHException("Negotiation failed.")


def _kind(algorithm: str) -> str:
    return _RSA if algorithm.startswith("rsa-") else algorithm


class RevokedHostKey(SSHException):
    """A server whose key, or whose authority's, known_hosts revokes; str() says what to do."""


class RefusedJumpHost(SSHException):
    """A jump host that cannot be believed or logged in to; str() says why, and what to do."""


class _Keys:
    """What is trusted for one name, as paramiko asks for it."""

    def __init__(self, trust: Trusted, name: str, files: Sequence[str], made: Transport) -> None:
        self._trust, self._name, self._transport = trust, name, made
        self._files = ", ".join(files)

    def keys(self) -> list[str]:
        """Return the kinds of the pinned keys; paramiko wants one where there is none."""
        return [each.get_name() for each in self._trust.pinned] or [_ALGORITHMS[0]]

    def values(self) -> list[PKey]:
        """Return the pinned keys."""
        return list(self._trust.pinned)

    def get(self, kind: str) -> PKey | None:
        """Return the key that the server has shown, where it is trusted; else one to compare.

        RevokedHostKey: it is revoked. SSHException: nothing of its kind is pinned.
        """
        shown = self._transport.get_remote_server_key()
        self._refuse_revoked(shown)
        why = self._not_certified(shown)
        if not why:
            return shown
        same = [each for each in self._trust.pinned if each.get_name() == kind]
        if not self._trust.pinned:
            raise SSHException(
                f"No host key for {self._name} found in {self._files}, and its @cert-authority "
                f"lines do not certify the key that it shows: {why}"
            )
        return next((each for each in same if each == shown), same[0] if same else None)

    def _refuse_revoked(self, shown: PKey) -> None:
        blobs = {shown.asbytes()}
        if is_certificate(shown):
            blobs.add(authority_of(shown))
        if blobs & self._trust.revoked:
            raise RevokedHostKey(
                f"the host key of {self._name} ({shown.get_name()} {shown.fingerprint}) is revoked "
                f"by a @revoked line of {self._files} or {GLOBAL}: another machine may have it; "
                "create a new key on the node (remove the old file, then ssh-keygen -A) and pin "
                "it, or remove that line if it is wrong"
            )

    def _not_certified(self, shown: PKey) -> str:
        """Return why no authority vouches for a key; nothing where one does."""
        if not is_certificate(shown):
            return "it has no certificate"
        try:
            require_certified(shown, self._trust.authorities, without_port(self._name))
        except NotCertified as error:
            return str(error)
        return ""


class _Pins:
    """What known_hosts files say of every name; the transport asks for the kinds of one's keys."""

    def __init__(self, files: Sequence[str], made: PinnedFirst) -> None:
        self._files, self._transport = files, made

    def get(self, name: str) -> _Keys | None:
        """Return what is trusted for a name; None where nothing is."""
        trust = trusted(self._files, name)
        if not trust.pinned and not trust.authorities:
            return None
        keys = _Keys(trust, name, self._files, self._transport)
        self._transport.pinned = frozenset(each.get_name() for each in trust.pinned)
        self._transport.is_certified = bool(trust.authorities)
        return keys


class _Files(HostKeys):
    """The names of known_hosts files, which are read when a connection looks a name up."""

    def __init__(self, files: Sequence[str]) -> None:
        super().__init__()
        self.files = tuple(files)


class UnknownHostKey(SSHException):
    """A server shows a key, and known_hosts has none for it."""

    def __init__(self, name: str, key: PKey) -> None:
        super().__init__(f"No host key for {name} found in known_hosts")
        self.key = key


class _Strict(MissingHostKeyPolicy):
    @override
    def missing_host_key(self, client: SSHClient, hostname: str, key: PKey) -> None:
        raise UnknownHostKey(hostname, key)


class Client(client.SSHClient):
    """pyinfra's client, as strict as ssh with StrictHostKeyChecking=yes and ForwardAgent=no.

    That is so for jump hosts as well, which pyinfra connects to without a word of the inventory.
    """

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
        destination(hostname, named.get(_CONFIG_FILE))  # what pyinfra reads without a check
        is_jump_host = _CHECKING not in named
        named |= {_CHECKING: "yes", _FORWARDING: False}
        try:
            super().connect(hostname, *given, **named)  # type: ignore[no-untyped-call]
        except SSHException as error:
            if not is_jump_host or isinstance(error, RefusedJumpHost):
                raise
            raise RefusedJumpHost(
                f"the jump host {hostname}: {error}; log in to it once with ssh, and compare the "
                "fingerprint that it shows with the one on its console; then run this again"
            ) from error

    @override
    def set_missing_host_key_policy(
        self, policy: type[MissingHostKeyPolicy] | MissingHostKeyPolicy
    ) -> None:
        super().set_missing_host_key_policy(_Strict())

    def _begin(self, sock: Any, **options: Any) -> Transport:
        made = PinnedFirst(sock, **options)
        _prefer_gcm(made)
        if isinstance(sock, socket.socket):  # behind a jump host it is a channel
            # Else a small packet of the handshake waits about 40 ms for the answer to the last one.
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._host_keys = _Pins(getattr(self._host_keys, "files", ()), made)
        return made


def _prefer_gcm(made: Transport) -> None:
    """Prefer AES-GCM: the other ciphers need a MAC, which paramiko computes in Python."""
    security = made.get_security_options()
    security.ciphers = sorted(security.ciphers, key=lambda name: "-gcm@" not in name)


def install() -> None:
    """Have pyinfra connect with `Client`, through jump hosts as well, and read with limits."""
    transport.install()
    commands.install()
    client.get_host_keys = _Files
    ssh.SSHClient = Client  # type: ignore[misc]
    client.SSHClient = Client  # type: ignore[misc]

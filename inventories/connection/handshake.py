"""Handshakes that ask for the kinds of host key that are pinned, as OpenSSH's client does.

paramiko asks for the first pinned kind alone, and for an RSA key by the name of its SHA-1
signature, which sshd has not offered since OpenSSH 8.8: it then takes the server's ed25519 key for
a changed one. Of two pinned keys of one kind it compares only the first.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Sequence
from typing import Any

from paramiko import MissingHostKeyPolicy, PKey, SSHClient, SSHException, Transport
from typing_extensions import override

from gpu_node.inventories.connection.certificates import (
    SUFFIX,
    NotCertified,
    authority_of,
    is_certificate,
    require_certified,
)
from gpu_node.inventories.connection.transport import BoundedTransport
from gpu_node.inventories.connection.trusted import GLOBAL, Trusted, trusted, without_port

_RSA = "ssh-rsa"
# How often a busy node is looked at while it agrees on keys.
_POLL_SECONDS = 0.1
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


class PinnedFirst(BoundedTransport):
    """A transport that prefers the algorithms of the `pinned` kinds of host key to all others.

    Those of certificates come first where an authority is trusted for the server.
    """

    pinned: frozenset[str] = frozenset()
    is_certified = False

    def __init__(self, sock: Any, **options: Any) -> None:
        super().__init__(sock, **options)
        security = self.get_security_options()
        # The other ciphers need a MAC, which paramiko computes in Python.
        security.ciphers = sorted(security.ciphers, key=lambda name: "-gcm@" not in name)
        if isinstance(sock, socket.socket):  # behind a jump host it is a channel
            # Else a small packet of the handshake waits about 40 ms for the answer to the last one.
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    @property
    @override
    def preferred_keys(self) -> Sequence[str]:
        given = super().preferred_keys
        kinds = [algorithm for algorithm in _ALGORITHMS if algorithm in given]
        first = [f"{kind}{SUFFIX}" for kind in kinds if self.is_certified]
        first += [kind for kind in kinds if _kind(kind) in self.pinned]
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


class Pins:
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


class UnknownHostKey(SSHException):
    """A server shows a key, and known_hosts has none for it."""

    def __init__(self, name: str, key: PKey) -> None:
        super().__init__(f"No host key for {name} found in known_hosts")
        self.key = key


class Strict(MissingHostKeyPolicy):
    """Refuses a server whose key is not pinned."""

    @override
    def missing_host_key(self, client: SSHClient, hostname: str, key: PKey) -> None:
        raise UnknownHostKey(hostname, key)

"""Host certificates: whether an authority that known_hosts trusts has signed one for a name."""

from __future__ import annotations

import struct
import time
from collections.abc import Collection

from paramiko import Message, PKey, SSHException

from gpu_node.inventories.connection.known_hosts import is_like

SUFFIX = "-cert-v01@openssh.com"
# How many strings the public key of each type has in a certificate (PROTOCOL.certkeys).
_PARTS = {"ssh-ed25519": 1, "ssh-rsa": 2}
_ECDSA = "ecdsa-sha2-nistp"
_ECDSA_PARTS = 2
_HOST = 2
# An RSA signature by SHA-1, which OpenSSH takes from no authority.
_SHA1 = "ssh-rsa"


class NotCertified(SSHException):
    """A certificate that does not vouch for a host; str() is the reason."""


def is_certificate(key: PKey) -> bool:
    """Whether a server has shown a key with a certificate."""
    return key.public_blob is not None and key.public_blob.key_type.endswith(SUFFIX)


def authority_of(key: PKey) -> bytes:
    """Return the public key of the authority that a certificate names, as ssh sends it."""
    return _read(key).authority


def require_certified(key: PKey, authorities: Collection[PKey], name: str) -> None:
    """Raise NotCertified unless one of the authorities has signed a server's key for a name."""
    certificate = _read(key)
    signer = next(
        (authority for authority in authorities if authority.asbytes() == certificate.authority),
        None,
    )
    if signer is None:
        raise NotCertified("no @cert-authority line names its signer")
    signature = Message(certificate.signature)
    if signature.get_text() == _SHA1:
        raise NotCertified("its signature uses SHA-1")
    signature.rewind()
    if not _is_signed(signer, certificate.signed, signature):
        raise NotCertified("its signature is wrong")
    if certificate.kind != _HOST:
        raise NotCertified("it is a user's certificate, not a host's")
    if not certificate.after <= time.time() < certificate.before:
        raise NotCertified("it is not valid now")
    if certificate.options:
        raise NotCertified("it has critical options, which no host's certificate has")
    if certificate.names and not any(is_like(each, name) for each in certificate.names):
        raise NotCertified(f"it is for {', '.join(certificate.names)[:200]}, not for {name}")


def _is_signed(signer: PKey, text: bytes, signature: Message) -> bool:
    """Whether a signature is one; a library of its own raises what it likes of half a one."""
    try:
        return signer.verify_ssh_sig(text, signature) is True
    except Exception:
        return False


def _read(key: PKey) -> _Certificate:
    """Return the certificate of a key; whatever is odd about it is NotCertified."""
    try:
        return _Certificate(key.public_blob.key_blob if key.public_blob else b"")
    except (struct.error, UnicodeDecodeError, ValueError) as error:
        raise NotCertified(f"it cannot be read: {error}") from error


class _Certificate:
    """The fields of a certificate."""

    def __init__(self, blob: bytes) -> None:
        message = Message(blob)
        kind = message.get_text().removesuffix(SUFFIX)
        parts = _ECDSA_PARTS if kind.startswith(_ECDSA) else _PARTS.get(kind, 0)
        if not parts:
            raise NotCertified(f"its type {kind} is not supported")
        for _ in range(1 + parts):  # a nonce first
            message.get_string()
        message.get_int64()  # its serial number
        self.kind = message.get_int()
        message.get_string()  # its name
        self.names = _strings(message.get_string())
        self.after, self.before = message.get_int64(), message.get_int64()
        self.options = message.get_string()
        message.get_string()  # extensions
        message.get_string()  # reserved
        self.authority = message.get_string()
        self.signature = message.get_string()
        if message.get_remainder() or not self.signature:
            raise NotCertified("it is cut off, or longer than it says")
        self.signed = blob[: -4 - len(self.signature)]


def _strings(packed: bytes) -> list[str]:
    message, strings = Message(packed), []
    while len(message.get_so_far()) < len(packed):
        strings.append(message.get_string().decode("utf-8", "replace"))
    return strings

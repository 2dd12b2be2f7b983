"""Checks values of a node that reach files and commands of others: each kind has one form.

A value of another form is Unreadable: it becomes a finding of the node that sent it.
"""

import base64
import binascii
import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from gpu_node.facts.probe.protocol import Unreadable
from gpu_node.facts.probe.words import CONTROL

# Kinds of public key that sshd accepts, and the words that the key itself must begin with.
KEY_TYPES = (
    "ssh-ed25519",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "ssh-rsa",
    "sk-ssh-ed25519@openssh.com",
    "sk-ecdsa-sha2-nistp256@openssh.com",
)
# OpenSSH has refused it since 7.0; an old host may still have one.
OLD_KEY_TYPES = (["ssh-dss"],)
# A key of 16384 bits, the largest that ssh-keygen makes, has less than 3 KiB.
LONGEST_KEY = 8192
MOST_ADDRESSES = 64
# All other nodes have each of them in known_hosts.
MOST_KEYS = 16
_LONGEST_PATH = 4096
_LARGEST_ID = 2**32 - 1

_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")


def _odd(text: str, kind: str) -> Unreadable:
    return Unreadable(f"not {kind}: {text[:60]!a}")


@dataclass(frozen=True)
class Form:
    """The form of a kind of text; calling it returns a text of this form, and refuses another."""

    kind: str
    pattern: re.Pattern[str]

    def __call__(self, text: str) -> str:
        if not self.pattern.fullmatch(text):
            raise _odd(text, self.kind)
        return text


interface = Form("the name of an interface", re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:@+-]{0,14}"))
hca_port = Form("a port of InfiniBand", re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}/[0-9]{1,3}"))
# As `uname -r` prints it.
kernel = Form("the name of a kernel", re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+~-]{0,127}"))
# Names as useradd accepts them, and names of directory services: user@example.org, EXAMPLE\user.
user = Form("a user's name", re.compile(r"\w[\w.@\\+-]{0,255}\$?"))
# Of a package.
version = Form("a version", re.compile(r"[0-9A-Za-z][0-9A-Za-z.+~:_!-]{0,127}"))
# Such as manylinux_2_17_x86_64.
platform = Form("a platform of wheels", re.compile(r"[a-z0-9_]{1,64}"))
package = Form(
    "the name of a package", re.compile(r"[A-Za-z0-9]([A-Za-z0-9._+-]{0,126}[A-Za-z0-9+])?")
)
_path = Form("an absolute path", re.compile(f"/[^{CONTROL}]*"))


def public_key(text: str) -> str:
    """Return type and key of a line `type key comment`: the node's comment is left out.

    The key is base64, and begins with its type again.
    """
    kind, blob = [*text.split(), "", ""][:2]
    if kind not in KEY_TYPES:
        raise _odd(kind, "a type of public key")
    if len(blob) > LONGEST_KEY or not _BASE64.fullmatch(blob):
        raise _odd(blob, "a public key in base64")
    try:
        raw = base64.b64decode(blob, validate=True)
    except binascii.Error:
        raise _odd(blob, "a public key in base64") from None
    length = int.from_bytes(raw[:4], "big")
    if raw[4 : 4 + length] != kind.encode("ascii"):
        raise _odd(blob, f"a public key of the type {kind}")
    return f"{kind} {blob}"


def public_keys(lines: Iterable[str]) -> tuple[str, ...]:
    """Return the keys of such lines, each once, without types that ssh no longer accepts."""
    now = [line for line in lines if line.split()[:1] not in ([], *OLD_KEY_TYPES)]
    keys = tuple(dict.fromkeys(map(public_key, now)))
    if len(keys) > MOST_KEYS:
        raise Unreadable(f"{len(keys)} public keys, more than {MOST_KEYS}")
    return keys


@lru_cache(maxsize=1 << 14)  # every node has the others' addresses
def address(text: str) -> str:
    """Return an IP address in its usual form, without the interface of a link-local one."""
    try:
        return str(ipaddress.ip_address(text.partition("%")[0]))
    except ValueError:
        raise _odd(text, "an IP address") from None


def with_prefix(text: str) -> str:
    """Return an IP address with the length of its network's prefix, such as 10.0.0.4/24."""
    try:
        ipaddress.ip_interface(text)
    except ValueError:
        raise _odd(text, "an IP address with a prefix") from None
    return text


def addresses(words: Iterable[str]) -> tuple[str, ...]:
    """Return IP addresses, each once, at most as many as a machine may have."""
    distinct = tuple(dict.fromkeys(map(address, words)))
    if len(distinct) > MOST_ADDRESSES:
        raise Unreadable(f"{len(distinct)} addresses, more than {MOST_ADDRESSES}")
    return distinct


def path(text: str) -> str:
    """Return an absolute path of one line."""
    if len(text) > _LONGEST_PATH:
        raise Unreadable(f"a path of {len(text)} characters")
    return _path(text)


def number(text: str, most: int = _LARGEST_ID) -> int:
    """Return a whole number that is not below zero, such as a uid."""
    if not (text.isascii() and text.isdecimal() and len(text) <= 20 and int(text) <= most):
        raise _odd(text, f"a number from 0 to {most}")
    return int(text)

"""IP addresses and names; imports no package, so that the command line starts quickly."""

from __future__ import annotations

import ipaddress
from functools import lru_cache
from urllib.parse import urlsplit

# What a message allows for an address.
ADDRESS = "an IP address or a host name"
# Of a large cluster every node asks about every other.
_KEPT = 1 << 14


@lru_cache(maxsize=_KEPT)
def is_address(word: str) -> bool:
    """Whether a word is an IP address, which is not allowed as a name."""
    try:
        ipaddress.ip_address(word)
    except ValueError:
        return False
    return True


def is_of_no_machine(address: str) -> bool:
    """Whether an IP address can never be one machine's; fe80::1 needs an interface, as %eth0."""
    ip = ipaddress.ip_address(address)
    is_on_no_link = ip.version == 6 and ip.is_link_local and "%" not in address
    return ip.is_unspecified or ip.is_multicast or is_on_no_link or str(ip) == "255.255.255.255"


def login_of(text: str) -> dict[str, str | int]:
    """Return the keys of a host for a URL or USER@HOST:PORT; nothing for any other text."""
    try:
        parts = urlsplit(text if "://" in text else f"//{text}")
        port = parts.port if parts.scheme in ("", "ssh") else None
    except ValueError:
        return {}
    if not parts.hostname or " " in text:
        return {}
    keys = {"address": parts.hostname, "user": parts.username, "port": port}
    return {key: value for key, value in keys.items() if value}


def with_port(word: str) -> tuple[str, int | None]:
    """Return the address and the port of HOST:PORT or [ADDRESS]:PORT; None where it has no port.

    ValueError if the port is not one.
    """
    if word.startswith("["):
        host, closed, rest = word[1:].partition("]")
        colon, port = (rest[:1], rest[1:]) if closed else ("", "")
        if not closed or (rest and colon != ":"):
            return word, None
    else:
        host, colon, port = word.partition(":")
        if ":" in port:  # an IPv6 address
            return word, None
    if not colon:
        return host, None
    if not (port.isascii() and port.isdecimal() and 0 < int(port) < 1 << 16):
        raise ValueError(port)
    return host, int(port)


@lru_cache(maxsize=_KEPT)
def is_loopback(word: str) -> bool:
    """Whether a word is an address, with or without a zone, that always means the node itself."""
    try:
        return ipaddress.ip_address(word.partition("%")[0]).is_loopback
    except ValueError:
        return False

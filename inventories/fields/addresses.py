"""IP addresses and names; imports no package, so that the command line starts quickly."""

from __future__ import annotations

import ipaddress
from functools import lru_cache

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

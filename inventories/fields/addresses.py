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


@lru_cache(maxsize=_KEPT)
def is_loopback(word: str) -> bool:
    """Whether a word is an address, with or without a zone, that always means the node itself."""
    try:
        return ipaddress.ip_address(word.partition("%")[0]).is_loopback
    except ValueError:
        return False

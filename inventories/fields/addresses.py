"""Tells an IP address from a name."""

from __future__ import annotations

import ipaddress


def is_address(word: str) -> bool:
    """Whether a word is an IP address, as no name may be."""
    try:
        ipaddress.ip_address(word)
    except ValueError:
        return False
    return True

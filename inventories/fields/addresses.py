"""IP addresses and names; imports no package, so that the command line starts quickly."""

from __future__ import annotations

import ipaddress
import re
from functools import lru_cache

# What a message allows for an address.
ADDRESS = "an IP address or a host name"
# Of a large cluster every node asks about every other.
_KEPT = 1 << 14
# What people write for a server: a URL, USER@HOST:PORT, or the words of a command line.
_LOGIN = re.compile(
    r"(?:(?P<scheme>[a-z]+)://)?(?:(?P<user>[^@:/\s]+)(?::[^@/\s]*)?@)?"
    r"(?P<address>\[[^\]\s]+\]|[^@:/\s\[\]]+)(?::(?P<port>[0-9]{1,5}))?(?:/\S*)?"
    r"(?P<options>(?:\s+-\S+\s+[^-\s]\S*)*)"
)
_OPTIONS = {
    **dict.fromkeys(("-u", "-l", "--user"), "user"),
    **dict.fromkeys(("-p", "--port"), "port"),
    **dict.fromkeys(("-i", "--key"), "key"),
}


@lru_cache(maxsize=_KEPT)
def is_address(word: str) -> bool:
    """Whether a word is an IP address, which is not allowed as a name."""
    try:
        ipaddress.ip_address(word)
    except ValueError:
        return False
    return True


def is_of_no_machine(address: str) -> bool:
    """Whether an IP address can never be one machine's."""
    ip = ipaddress.ip_address(address)
    return ip.is_unspecified or ip.is_multicast or str(ip) == "255.255.255.255"


def login_of(text: str) -> dict[str, str | int]:
    """Return the keys of a host for a URL or a command line; nothing for any other text."""
    match = _LOGIN.fullmatch(text.strip())
    words = match["options"].split() if match else []
    options = dict(zip(words[::2], words[1::2], strict=True))
    if not match or not options.keys() <= _OPTIONS.keys():
        return {}
    port = match["port"] if match["scheme"] in (None, "ssh") else None
    keys = {"address": match["address"].strip("[]"), "user": match["user"], "port": port}
    keys |= {_OPTIONS[option]: value for option, value in options.items()}
    return {
        key: int(value) if key == "port" and value.isdecimal() else value
        for key, value in keys.items()
        if value
    }


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

"""Proxies on the node itself: who uses them, and whether a program listens there."""

import re
from collections.abc import Iterable

from gpu_node.facts.probe.base import State
from gpu_node.facts.probe.lines import lines_of
from gpu_node.facts.probe.protocol import Unreadable
from gpu_node.facts.probe.shell import shell

ASK = shell("env/proxies")
SHARED = ("gn_proxy", shell("env/proxy.awk"))
# A variable of the environment that names a proxy; a URL, or a host alone, with a port.
VARIABLE = re.compile(r"(?i)(?!no_)[a-z]+_proxy")
_LOCAL = re.compile(
    r"(?i)(?:[a-z0-9+.-]+://)?(?:[^/@]*@)?((?:127\.\d+\.\d+\.\d+|localhost|\[::1\]):(\d{1,5}))/?"
)
# More lines than set a proxy on any node, and more ports than programs listen on.
_MOST_LINES, _MOST_PORTS = 100, 65_536
_FILE = re.compile(r"[/~][^\t]{1,255}")
_ADDRESS = re.compile(r"[a-z0-9.:\[\]]{1,40}:(\d{1,5})")


class Proxy(State):
    """A setting that names a proxy on the node: file, line (0: the session), name, HOST:PORT."""

    path: str
    line: int
    name: str
    address: str
    listens: bool


class Proxies(State):
    """The settings in files, and the ports that programs listen on for the node itself."""

    lines: tuple[Proxy, ...]
    ports: frozenset[int]


def parse(text: str) -> Proxies:
    """Parse `FILE<tab>LINE<tab>NAME<tab>HOST:PORT`, and `listens PORT` in hex."""
    rows = lines_of(text)
    heard = [row.removeprefix("listens ") for row in rows if row.startswith("listens ")]
    lines = [row.split("\t") for row in rows if "\t" in row]
    if len(lines) > _MOST_LINES or len(heard) > _MOST_PORTS:
        raise Unreadable(f"more than {_MOST_LINES} lines that set a proxy")
    ports = frozenset(int(port, 16) for port in heard)
    return Proxies(lines=tuple(_proxy(row, ports) for row in lines), ports=ports)


def _proxy(row: list[str], ports: Iterable[int]) -> Proxy:
    path, line, name, address = row
    match = _ADDRESS.fullmatch(address)
    if match is None or not _FILE.fullmatch(path):
        raise ValueError(f"{address!r} is not a proxy on this machine")
    listens = int(match[1]) in ports
    return Proxy(path=path, line=int(line), name=name[:64], address=address, listens=listens)


def is_local(url: str) -> bool:
    """Whether a proxy is on the machine itself."""
    return _LOCAL.fullmatch(url) is not None


def of_session(variables: dict[str, str], known: Proxies) -> tuple[Proxy, ...]:
    """Return the proxies on the node that only a launcher's session shows, and no line."""
    proxies = []
    for name, value in variables.items():
        match = _LOCAL.fullmatch(value)
        if match is None or any(match[1].lower() == line.address for line in known.lines):
            continue
        listens = int(match[2]) in known.ports
        proxies.append(Proxy(path="", line=0, name=name, address=match[1], listens=listens))
    return tuple(proxies)

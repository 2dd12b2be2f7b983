"""Package sources: the repositories of a server, and whether they answer.

No file of the system is changed: each repository's index is stored in a folder that is removed.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from gpu_node.facts.probe.base import State
from gpu_node.facts.probe.protocol import Section
from gpu_node.facts.probe.readers import Columns
from gpu_node.facts.probe.redaction import without_users
from gpu_node.facts.probe.shell import assigned, shell

# For one file of a repository, and for all of them in parallel.
FETCH_SECONDS, SECONDS = 15, 60

HELD = shell("packages/held")
_SOURCES = (
    shell("packages/apt", limit=FETCH_SECONDS)
    + shell("packages/rpm")
    + shell("packages/sources", limit=FETCH_SECONDS)
)
# What a run's scripts read as well; see its first lines for its variables.
PROXY_FILE = Path(__file__).with_name("proxy.sh")


def section(data: Mapping[str, Any]) -> Section:
    """Return the section about repositories, asked through the proxy in a node's `data`."""
    proxy = assigned(**proxy_of(data)) + shell("packages/proxy")
    return Section("host.repositories", proxy + _SOURCES, seconds=SECONDS)


def proxy_of(data: Mapping[str, Any]) -> dict[str, str]:
    """Return the variables of proxy.sh for a node, by its flat data."""
    direct = data.get("proxy_no_proxy")
    hosts = direct if isinstance(direct, str) else ",".join(direct or ())
    return {"proxy": data.get("proxy_url") or "", "direct": hosts}


class Held(State):
    """A lock of the package manager that a process holds."""

    file: str
    pid: int
    command: str


class PackageSource(State):
    """A repository: its address (apt) or id (yum, dnf), whether it answers, and why not."""

    name: str
    state: Literal["ok", "bad", "unknown"]
    why: str


parse_held = Columns(Held, "file pid command")
_SOURCE_COLUMNS = Columns(PackageSource, "state name why...")


def parse_sources(text: str) -> tuple[PackageSource, ...]:
    """Parse columns, without user and password in an address."""
    return _SOURCE_COLUMNS(without_users(text).replace("://...@", "://"))

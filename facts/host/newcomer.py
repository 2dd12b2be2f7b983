"""What a server that is to become a node is asked about itself: its system and its packages."""

import re
from collections.abc import Mapping
from typing import Any

from gpu_node.facts.packages import sources
from gpu_node.facts.packages.sources import parse_held, parse_sources
from gpu_node.facts.probe import checked
from gpu_node.facts.probe.base import Parsers, State
from gpu_node.facts.probe.protocol import Section, Unreadable
from gpu_node.facts.probe.readers import pairs
from gpu_node.facts.probe.shell import shell

# Folders in which the deploy writes; an inventory adds more.
FOLDERS = ("/usr", "/boot", "/var", "/opt", "/tmp")  # noqa: S108 (its free space is asked)


class System(State):
    """The release in os-release: ID, VERSION_ID ("" where it has none), name; uname -m."""

    id: str
    version: str
    name: str
    machine: str


def sections(data: Mapping[str, Any]) -> tuple[Section, ...]:
    """Return the sections; `data` has the proxy through which repositories are asked."""
    return (
        Section("host.machine-id", shell("host/machine_id"), light=True),
        Section("host.system", shell("host/system"), light=True),
        Section("host.package-lock", sources.HELD),
        sources.section(data),
    )


def parse_system(text: str) -> System:
    """Parse lines `id`, `version`, `name` and `machine`."""
    values = {word: value.strip() for word, value in pairs(text).items()}
    if not values["machine"] or not (values["id"] or values["name"]):
        raise Unreadable("neither os-release nor redhat-release names the system")
    return System.model_validate(values)


_machine_id = checked.Form("the id of a machine", re.compile(r"[0-9a-fA-F-]{0,64}"))
PARSERS: Parsers = {
    "host.machine-id": ("machine_id", lambda text: _machine_id(text.strip())),
    "host.system": ("system", parse_system),
    "host.package-lock": ("package_lock", parse_held),
    "host.repositories": ("repositories", parse_sources),
}

"""What a server that is to become a node is asked about itself: its system and its packages."""

import re
from collections.abc import Mapping
from typing import Any

from gpu_node.facts.packages import sources
from gpu_node.facts.packages.sources import parse_held, parse_sources
from gpu_node.facts.probe.base import State
from gpu_node.facts.probe.lines import lines_of
from gpu_node.facts.probe.protocol import Readings, Section, Unreadable
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
    rows = (line.partition(" ") for line in lines_of(text))
    values = {word: value.strip() for word, _, value in rows}
    if not values["machine"] or not (values["id"] or values["name"]):
        raise Unreadable("neither os-release nor redhat-release names the system")
    return System.model_validate(values)


def parse_machine_id(text: str) -> str:
    """Parse the id of the machine, which may be empty."""
    if not _MACHINE_ID.fullmatch(text.strip()):
        raise Unreadable(f"not the id of a machine: {text.strip()[:60]!a}")
    return text.strip()


_MACHINE_ID = re.compile(r"[0-9a-fA-F-]{0,64}")
_PARSERS = {
    "machine_id": ("host.machine-id", parse_machine_id),
    "system": ("host.system", parse_system),
    "package_lock": ("host.package-lock", parse_held),
    "repositories": ("host.repositories", parse_sources),
}


def parse(readings: Readings) -> dict[str, object]:
    """Return the values of the area's fields of a newcomer; none of a node, which is not asked."""
    return {
        field: readings.take(section, parser)
        for field, (section, parser) in _PARSERS.items()
        if section in readings.sections
    }

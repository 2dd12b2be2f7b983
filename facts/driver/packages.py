"""Packages that the inventory names for the driver: whether they are installed, and versions."""

import shlex
from collections.abc import Sequence

from typing_extensions import override

from gpu_node.facts.probe.base import Parsers, SectionFact, State
from gpu_node.facts.probe.lines import lines_of
from gpu_node.facts.probe.protocol import Section
from gpu_node.facts.probe.shell import shell

NAME = "driver.packages"
_INSTALLED = shell("driver/packages")


class Packages(State):
    """Versions by name, such as 535.154.05-1; "" if half installed; no entry if not installed.

    An epoch (1:) is left out, so that the version begins with that of the driver.
    """

    versions: dict[str, str]


def sections(names: Sequence[str]) -> tuple[Section, ...]:
    """Return the section about these packages; empty if none is named."""
    return (_section(names),) if names else ()


def _section(names: Sequence[str]) -> Section:
    return Section(NAME, f"set -- {shlex.join(names)}\n{_INSTALLED}", light=True)


def parse_packages(text: str) -> dict[str, str]:
    """Parse lines `name status version`; a package with only its configuration is not installed."""
    rows = [(*line.split(), "")[:3] for line in lines_of(text) if line.strip()]
    return {
        name: version.rpartition(":")[2] if status[:2] in ("ii", "hi") else ""
        for name, status, version in rows
        if status[1:2] not in ("n", "c")
    }


PARSERS: Parsers = {NAME: ("packages", parse_packages)}


class DriverPackages(SectionFact):
    """Returns `Packages` as a dict: {"versions": {"nvidia-dkms-535": "535.154.05-1"}}."""

    unread = Packages(versions={})
    parser = staticmethod(lambda text: Packages(versions=parse_packages(text)))

    @override
    def command(self, names: Sequence[str]) -> str:
        return self.script_for(_section(names))

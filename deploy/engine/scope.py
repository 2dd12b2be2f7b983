"""Which part of a run is repaired: only some areas, or only some nodes; the rest is only read."""

from collections.abc import Iterable
from dataclasses import dataclass

from pyinfra.api import Host

from gpu_node.drift.engine.finding import Finding


@dataclass(frozen=True)
class Part:
    """`--data areas=ssh,shm` and `--data change=v100-02`; None where all are meant."""

    areas: tuple[str, ...] | None = None
    nodes: tuple[str, ...] | None = None

    def of(self, node: str, findings: Iterable[Finding]) -> tuple[Finding, ...]:
        """Return the findings of a node that the run must repair, or fail because of.

        A finding that waits for a node outside of the run is none of them.
        """
        chosen = self._in_areas(findings)
        if self.nodes is None:
            return chosen
        return tuple(each for each in chosen if node in self.nodes and not self._waits(each))

    def waiting(self, node: str, findings: Iterable[Finding]) -> tuple[Finding, ...]:
        """Return the findings of a node of the run that a node outside of it explains."""
        if self.nodes is None or node not in self.nodes:
            return ()
        return tuple(area for area in self._in_areas(findings) if self._waits(area))

    def _in_areas(self, findings: Iterable[Finding]) -> tuple[Finding, ...]:
        return tuple(finding for finding in findings if self.has(finding.rule.split(".")[0]))

    def _waits(self, finding: Finding) -> bool:
        """Whether every root of a finding is on a node outside of the run."""
        if self.nodes is None or finding.root is None:
            return False
        return not {finding.root.node, *finding.root_nodes} & {*self.nodes}

    def has(self, area: str) -> bool:
        """Whether an area is a part of the run."""
        return self.areas is None or area in self.areas


def part_of(host: Host) -> Part:
    """Return the part of the run that a host's data names."""
    areas, nodes = (host.data.get(key) for key in ("areas", "change"))
    return Part(names_in(areas), names_in(nodes))


def names_in(value: object) -> tuple[str, ...] | None:
    """Return the names in a list, or in text with commas; None if there is no value."""
    if value is None:
        return None
    names = value.split(",") if isinstance(value, str) else value
    return tuple(str(name).strip() for name in names) if isinstance(names, list | tuple) else ()

"""What `checks` of the inventory turns off: its number, and a line for each entry."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from gpu_node.drift.engine.finding import OffFinding
from gpu_node.drift.ranges import ranges
from gpu_node.drift.report.commas import at_commas
from gpu_node.drift.report.model import HostReport
from gpu_node.drift.report.problems import names
from gpu_node.inventories.escape import visible
from gpu_node.inventories.plurals import counted

_GAP = 2


class OnNode(NamedTuple):
    """A finding that is off, and the node that has it."""

    node: str
    finding: OffFinding


def lines(
    hosts: Mapping[str, HostReport], width: int, only: Collection[str] = (), full: bool = False
) -> Iterator[RenderableType]:
    """Yield how many findings are off, and a line for each entry of `checks` that does it.

    `only` chooses by rule, area or node. `full`: each finding has a line as well.
    """
    for depth, words in texts(hosts, only, full):
        yield Padding(at_commas(Text(words), width - depth * _GAP), (0, 0, 0, depth * _GAP))


def texts(
    hosts: Mapping[str, HostReport], only: Collection[str] = (), full: bool = False
) -> Iterator[tuple[int, str]]:
    """Yield the same as text, each line with its depth below the first one."""
    entries: dict[str, list[OnNode]] = {}
    for name, host in hosts.items():
        for each in host.off:
            if not only or names(only, each.rule) or name in only:
                entries.setdefault(entry(each), []).append(OnNode(name, each))
    if entries:
        total = counted(sum(map(len, entries.values())), "finding")
        yield 0, f"{total} off by checks in the inventory (not repaired, no failure):"
    for name, found in entries.items():
        rules = list(dict.fromkeys(each.finding.rule for each in found))
        on = ranges(dict.fromkeys(each.node for each in found), hosts)
        yield 1, visible(f"{name}: {counted(len(found), 'finding')} on {on}: {', '.join(rules)}")
        for node, each in found if full else ():
            about = f"{each.subject}: " if each.subject not in ("", node) else ""
            yield 2, visible(f"{node}: {each.rule}: {about}{each.found}")


def entry(finding: OffFinding) -> str:
    """Return the entry of `checks` that turns a finding off, with its day and its reason."""
    if finding.until is None:
        return f"{finding.entry} (false)"
    return f"{finding.entry} (until {finding.until}: {finding.reason})"

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
    entries: dict[str, list[OnNode]] = {}
    for name, host in hosts.items():
        for each in host.off:
            if not only or names(only, each.rule) or name in only:
                entries.setdefault(_entry(each), []).append(OnNode(name, each))
    if entries:
        total = counted(sum(map(len, entries.values())), "finding")
        yield Text(f"{total} off by checks in the inventory (not repaired, no failure):")
    for entry, found in entries.items():
        rules = list(dict.fromkeys(each.finding.rule for each in found))
        on = ranges(dict.fromkeys(each.node for each in found), hosts)
        words = f"{entry}: {counted(len(found), 'finding')} on {on}: {', '.join(rules)}"
        yield _indented(words, width)
        for node, each in found if full else ():
            about = f"{each.subject}: " if each.subject not in ("", node) else ""
            yield _indented(f"{node}: {each.rule}: {about}{each.found}", width, 2 * _GAP)


def _entry(finding: OffFinding) -> str:
    if finding.until is None:
        return f"{finding.entry} (false)"
    return f"{finding.entry} (until {finding.until}: {finding.reason})"


def _indented(words: str, width: int, gap: int = _GAP) -> RenderableType:
    return Padding(at_commas(Text(visible(words)), width - gap), (0, 0, 0, gap))

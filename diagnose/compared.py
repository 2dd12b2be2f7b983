"""Causes that no text shows: what lines of ranks say differs, who does not come, a wrong name."""

import re
from collections.abc import Iterator

from gpu_node.diagnose.cause import comparisons, starts
from gpu_node.diagnose.match import Evidence, Match, evidence
from gpu_node.diagnose.scan import Line
from gpu_node.drift.ranges import ranges
from gpu_node.inventories.nccl_variables import is_unknown

_MOST, _SHOWN = 10_000, 50
# DeepSpeed prints the command with the variables that it takes to all nodes: launcher/runner.py.
EXPORTS = "export NCCL_"
_EXPORTED = re.compile(r"export ((?:NCCL|TORCH)_\w{1,100})=")


class Compared:
    """Collects the first value of each rank or node."""

    def __init__(self) -> None:
        self._misspelt: list[Evidence] = []
        self._first: dict[str, dict[object, tuple[tuple[str, ...], Evidence]]] = {}
        # By who says it: of each process and its rank how many there are, and its line.
        self._came: dict[str, dict[tuple[object, str], tuple[int, Evidence]]] = {}
        self._complete: set[str] = set()
        # The processes of a node, by their GPUs, that print: they have come, or are about to.
        self._printing: set[str] = set()

    def take(self, line: Line) -> None:
        """Take the values of a line."""
        if EXPORTS in line.text and any(map(is_unknown, _EXPORTED.findall(line.text))):
            self._misspelt.append(evidence(line))
        if line.origin.node and len(self._printing) < _MOST:
            self._printing.add(line.origin.stream)
        for start in (each for each in starts() if each.has not in self._complete):
            if start.all and start.all in line.text:
                self._complete.add(start.has)
            elif start.has in line.text and (match := re.search(start.line, line.text)):
                found = {"process": f"{line.order}", "size": "1", **match.groupdict()}
                came = self._came.setdefault(start.has, {})
                if len(came) < _MOST:
                    came[found["process"], match["rank"]] = int(found["size"]), evidence(line)
        for each in comparisons():
            who = getattr(line.origin, each.by)
            if each.has not in line.text or who is None:
                continue
            first = self._first.setdefault(each.cause, {})
            if who in first or len(first) >= _MOST:
                continue
            if match := re.search(each.line, line.text):
                first[who] = match.groups(""), evidence(line)

    def matches(self) -> Iterator[Match]:
        """Yield the causes whose values differ, with a line of each value, and wrong names."""
        if lines := self._misspelt[:_MOST]:
            yield Match("variable-misspelt", "low", False, lines)
        for cause, first in self._first.items():
            of_value = {value: line for value, line in first.values()}
            if len(of_value) > 1:
                lines = sorted(of_value.values(), key=lambda line: line.order)
                yield Match(cause, "medium", False, lines)

    def absent(self) -> Iterator[Match]:
        """Yield the cause of ranks that do not come; a part of a job has fewer than the whole."""
        for has, came in self._came.items():
            size = max(size for size, _ in came.values())
            ranks = {who: line for who, (of, line) in came.items() if of == size}
            last = {(line.log, line.stream): line.number for line in ranks.values()}
            lines = [*ranks.values()][:_SHOWN]
            if size == 1 and len(ranks) > 1:
                yield Match("world-size-wrong", "low", False, lines, last)
            elif self._printing - {line.stream for line in ranks.values()}:
                continue  # the log ends before all that print say more
            elif len({rank for _, rank in ranks}) < size and has not in self._complete:
                missing = sorted({*range(size)} - {int(rank) for _, rank in ranks if rank})
                who = f": rank {ranges(map(str, missing))} of {size} is not among those that came"
                yield Match("ranks-missing-at-start", "low", False, lines, last, more=who)

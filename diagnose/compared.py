"""Causes that no text shows: what lines of several ranks say differs, or a name that is wrong."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from gpu_node.diagnose.match import Evidence, Match, evidence
from gpu_node.diagnose.scan import Line
from gpu_node.inventories.nccl_variables import is_unknown

_MOST = 10_000
# DeepSpeed prints the command with the variables that it takes to all nodes: launcher/runner.py.
EXPORTS = "export NCCL_"
_EXPORTED = re.compile(r"export ((?:NCCL|TORCH)_\w{1,100})=")
_MISSPELT = "variable-misspelt"


@dataclass(frozen=True)
class Comparison:
    """A cause that is seen where a value of lines with a text differs between their `who`."""

    cause: str
    has: str
    value: re.Pattern[str]
    who: Callable[[Line], object]


COMPARISONS = (
    # The watchdog of each rank names the collective that it waited for: ProcessGroupNCCL.cpp.
    Comparison(
        "ranks-in-different-collectives",
        "Watchdog caught collective operation timeout",
        re.compile(r"WorkNCCL\(SeqNum=(\d+), OpType=(\w+)(?:, NumelIn=(\d+))?"),
        lambda line: line.rank,
    ),
    # The first rank of a communicator prints it with NCCL_DEBUG=VERSION, each with INFO: init.cc.
    Comparison(
        "nccl-versions-differ",
        "NCCL version ",
        re.compile(r"NCCL version (\d+\.\d+(?:\.\d+)?)"),
        lambda line: line.origin.node,
    ),
)


class Compared:
    """Collects the first value of each rank or node."""

    def __init__(self) -> None:
        self._misspelt: list[Evidence] = []
        self._first: dict[str, dict[object, tuple[tuple[str, ...], Evidence]]] = {}

    def take(self, line: Line) -> None:
        """Take the values of a line."""
        if EXPORTS in line.text and any(map(is_unknown, _EXPORTED.findall(line.text))):
            self._misspelt.append(evidence(line))
        for each in COMPARISONS:
            who = each.who(line)
            if each.has not in line.text or who is None:
                continue
            first = self._first.setdefault(each.cause, {})
            if (match := each.value.search(line.text)) and who not in first and len(first) < _MOST:
                first[who] = match.groups(""), evidence(line)

    def matches(self) -> Iterator[Match]:
        """Yield the causes whose values differ, with a line of each value, and wrong names."""
        if lines := self._misspelt[:_MOST]:
            yield Match(_MISSPELT, "low", False, lines)
        for cause, first in self._first.items():
            of_value = {value: line for value, line in first.values()}
            if len(of_value) > 1:
                lines = sorted(of_value.values(), key=lambda line: line.order)
                yield Match(cause, "medium", False, lines)

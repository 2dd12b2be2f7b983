"""Limit rule about the text of the files: lines that pam_limits skips or misreads."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from gpu_node.drift.engine.rule import Fault, rule
from gpu_node.drift.engine.subject import Path
from gpu_node.facts.limits.state import LimitsState
from gpu_node.inventories.schema import LimitsWanted

_NAMED = 3


@rule(
    "limits.line-misread",
    "warning",
    always=True,
    who="administrator",
    why="pam_limits skips a line that it does not understand, or reads another value, and "
    "only writes that to the system's log: the limit is then not the one in the file",
    manual="correct the line: <domain> <type> <item> <value>, as in `* - memlock unlimited`; "
    "the value is a number without a unit (memlock: KiB)",
)
def line_misread(state: LimitsState, wanted: LimitsWanted | None) -> Iterator[Fault]:
    """A line of limits.conf or limits.d does not do what it seems to say."""
    for path, lines in groupby(state.misread or (), key=lambda each: each.path):
        wrong = list(lines)
        named = [f"line {each.line} ({each.text}): {each.why}" for each in wrong[:_NAMED]]
        more = [f"{len(wrong) - _NAMED} more"] if wrong[_NAMED:] else []
        yield Fault(
            subject=Path(path),
            found="; ".join([*named, *more]),
            wanted="lines of <domain> <type> <item> <value>, a number as the value",
            fix=f"correct line {', '.join(str(each.line) for each in wrong[:_NAMED])} of {path}",
        )

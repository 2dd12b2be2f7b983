"""Limit rule about the text of the files: lines that pam_limits skips or misreads."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from gpu_node.drift.engine.rule import At, Fault, check
from gpu_node.drift.engine.subject import Path
from gpu_node.facts.limits.state import LimitsState
from gpu_node.inventories.wanted import LimitsWanted

_NAMED = 3


@check("limits.line-misread")
def line_misread(at: At[LimitsState, LimitsWanted | None]) -> Iterator[Fault]:
    for path, lines in groupby(at.here.misread or (), key=lambda each: each.path):
        wrong = list(lines)
        named = [f"line {each.line} ({each.text}): {each.why}" for each in wrong[:_NAMED]]
        more = [f"{len(wrong) - _NAMED} more"] if wrong[_NAMED:] else []
        yield Fault(
            subject=Path(path),
            found="; ".join([*named, *more]),
            wanted="lines of <domain> <type> <item> <value>, a number as the value",
            fix=f"correct line {', '.join(str(each.line) for each in wrong[:_NAMED])} of {path}",
        )

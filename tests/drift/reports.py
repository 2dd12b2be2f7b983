"""Reports for tests: kinds of nodes, the report about some of them, and both tables as text."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

from rich.console import Console, RenderableType

from gpu_node.drift.report import full, table
from gpu_node.drift.report.formats import Page, parts, printed
from gpu_node.drift.report.model import Report, report_of
from gpu_node.drift.report.seen import Seen
from gpu_node.drift.report.view import View
from tests.drift import states

# A boot gives half of this memory, which is less than wanted.
FRESH = {
    "shm": {"usage": {"size": 67108864}, "fstab": [], "memory": 12 << 30},
    "limits": {"session": {"nofile": {"soft": 1024, "hard": 4096}}, "files": []},
}
WARNING: dict[str, Any] = {"shm": {"fstab": [], "memory": 12 << 30}}
HANGS = {
    "toolchain": {"cmake": None},
    "unreadable": [
        {"area": "toolchain", "section": "toolchain.cmake", "reason": "no answer within 5 s"}
    ],
}
REFUSED = "Could not connect, Connection refused (192.0.2.12:22)"
GONE = Seen(states.wanted({"gpu_model": "V100"}), error=REFUSED, reached=False)
MUTE = Seen(states.wanted(), error="the probe could not run: no output", reached=True)
# No area is unreadable, and a fact that nodes must agree on has no value.
UNKNOWN = states.seen(
    {"nccl": {"environments": {"/opt/dis": None}}}, nccl_environments=["/opt/dis"]
)
KINDS = {
    "ok": states.seen(),
    "drift": states.seen(FRESH),
    "warning": states.seen(WARNING),
    "unread": states.seen(HANGS),
    "gone": GONE,
    "mute": MUTE,
}
THREE = {"a100-01": states.seen(FRESH), "v100-01": states.seen(HANGS), "v100-02": GONE}


def report(nodes: dict[str, Seen]) -> Report:
    """Return the report about some nodes, always of the same moment."""
    made = report_of("inventories/lab.py", nodes)
    return made.model_copy(update={"generated": "2025-09-01T08:00:00+00:00"})


def written(form: str, report: Report, width: int = 80, encoding: str = "utf-8") -> str:
    """Return a report in a format, for a file of an encoding."""
    file = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    return "".join(parts(form, View(report), Page(Console(file=file, width=width))))


def drawn(nodes: dict[str, Seen], width: int) -> str:
    """Return the whole report as a pipe gets it."""
    return _printed(full.render(View(report(nodes)), width), width)


def concise(
    nodes: dict[str, Seen], width: int, facts: bool = False, only: Sequence[str] = ()
) -> str:
    """Return the table of problems as a pipe gets it."""
    return _printed(table.render(View(report(nodes), only), width, facts), width)


def _printed(renderable: RenderableType, width: int) -> str:
    return printed(renderable, Console(file=io.StringIO(), width=width))

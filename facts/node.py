"""NodeState: all areas of one node, from one probe in one round trip."""

from __future__ import annotations

from typing import Any

from typing_extensions import override

from facts import limits, shm, toolchain
from facts.area import ProbeFact, State
from facts.probe import read, time_limit

SECTIONS = (*shm.SECTIONS, *limits.SECTIONS, *toolchain.SECTIONS)
# Seconds for the whole probe; each section has a limit of its own on the node.
SECONDS = time_limit(SECTIONS)


class UnreadSection(State):
    """A section that gave no usable answer: its area, its name and the reason."""

    area: str
    section: str
    reason: str


class NodeState(State):
    """What was found on a node, by area, and what could not be found out."""

    shm: shm.ShmState
    limits: limits.LimitsState
    toolchain: toolchain.ToolchainState
    unreadable: tuple[UnreadSection, ...] = ()


def parse(output: list[str]) -> NodeState:
    """Return the state that the lines of a probe's `output` describe."""
    readings = read(output, SECTIONS)
    areas = {
        "shm": shm.parse(readings),
        "limits": limits.parse(readings),
        "toolchain": toolchain.parse(readings),
    }
    unreadable = [
        UnreadSection(area=name.split(".")[0], section=name, reason=reason)
        for name, reason in ((unread.section, unread.reason) for unread in readings.unread)
    ]
    return NodeState.model_validate({**areas, "unreadable": unreadable})


class NodeProbe(ProbeFact):
    """Returns `NodeState` as a dict: {"shm": {...}, "limits": {...}, ..., "unreadable": [...]}."""

    sections = SECTIONS

    @override
    def told(self, output: list[str]) -> dict[str, Any]:
        return parse(output).model_dump(mode="json")

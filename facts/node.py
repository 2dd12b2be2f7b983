"""NodeState: all areas of one node, from one probe in one round trip."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from typing_extensions import override

from facts import driver, env, libnccl, limits, nccl, network, shm, ssh, toolchain, workspace
from facts.area import ProbeFact, State
from facts.file_systems import Places
from facts.named import Named
from facts.probe import Section, read

_OTHERS = (*limits.SECTIONS, *toolchain.SECTIONS)
SECTIONS = (
    *(*driver.SECTIONS, *shm.SECTIONS, *_OTHERS, *libnccl.SECTIONS),
    *(*ssh.SECTIONS, *network.SECTIONS, *env.SECTIONS, *workspace.SECTIONS),
)


def sections(named: Named) -> tuple[Section, ...]:
    """Return all sections, those about what an inventory names included."""
    asked = (area.sections(named) for area in (nccl, ssh, network, env, workspace))
    rest = (each for sections in asked for each in sections)
    return (*driver.sections(named), *shm.SECTIONS, *_OTHERS, *rest)


# Those that are asked with sudo, where an inventory allows it; some only where another user trains.
ROOT_SECTIONS = frozenset(
    each.name for each in (*SECTIONS, *sections(Named(trains_apart=True))) if each.root
)


class UnreadSection(State):
    """A section that gave no usable answer: its area, its name and the reason."""

    area: str
    section: str
    reason: str


class NodeState(State):
    """What was found on a node, by area, and what could not be found out."""

    driver: driver.DriverState
    shm: shm.ShmState
    limits: limits.LimitsState
    toolchain: toolchain.ToolchainState
    nccl: nccl.NcclState
    ssh: ssh.SshState
    network: network.NetworkState
    env: env.EnvState
    workspace: workspace.WorkspaceState
    unreadable: tuple[UnreadSection, ...] = ()


def placed(prefix: str, found: NodeState) -> Places | None:
    """Return where the files of a Python environment lie on a node; None where that is unknown."""
    return (found.nccl.places or {}).get(prefix)


def parse(output: list[str], asked: Sequence[Section] = SECTIONS) -> NodeState:
    """Return the state that the lines of a probe's `output` describe."""
    readings = read(output, asked)
    areas = {
        "driver": driver.parse(readings),
        "shm": shm.parse(readings),
        "limits": limits.parse(readings),
        "toolchain": toolchain.parse(readings),
        "nccl": nccl.parse(readings),
        "ssh": ssh.parse(readings),
        "network": network.parse(readings),
        "env": env.parse(readings),
        "workspace": workspace.parse(readings),
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
    def sections_for(self, named: Named) -> Sequence[Section]:
        return sections(named)

    @override
    def told(self, output: list[str]) -> dict[str, Any]:
        return parse(output, self.asked or self.sections).model_dump(mode="json")

"""NodeState: the state of all areas of a node, from one probe in one round trip."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import create_model
from typing_extensions import override

from gpu_node.facts.areas import AREAS, area_folder
from gpu_node.facts.probe.base import AreaFact, ProbeFact, State
from gpu_node.facts.probe.file_systems import Places
from gpu_node.facts.probe.protocol import Section, Times, read
from gpu_node.facts.probe.request import ProbeRequest

if TYPE_CHECKING:
    from gpu_node.facts.driver.state import DriverState
    from gpu_node.facts.env.state import EnvState
    from gpu_node.facts.host.state import HostState
    from gpu_node.facts.limits.state import LimitsState
    from gpu_node.facts.nccl.state import NcclState
    from gpu_node.facts.network.state import NetworkState
    from gpu_node.facts.shm.state import ShmState
    from gpu_node.facts.ssh.state import SshState
    from gpu_node.facts.toolchain.state import ToolchainState
    from gpu_node.facts.workspace.state import WorkspaceState


def _fact_of(area: str) -> type[AreaFact]:
    """Return the fact of an area: the one subclass of AreaFact in facts/AREA/__init__.py."""
    folder = area_folder("facts", area, "the area's one subclass of AreaFact")
    facts = [
        each
        for each in vars(folder).values()
        if isinstance(each, type) and issubclass(each, AreaFact) and each is not AreaFact
    ]
    if len(facts) != 1:
        raise ImportError(
            f"facts/{area}/__init__.py has {len(facts)} subclasses of AreaFact; import exactly one"
        )
    return facts[0]


# The fact of each area, in the order of the register.
AREA_FACTS: dict[str, type[AreaFact]] = {area: _fact_of(area) for area in AREAS}
SECTIONS = tuple(section for fact in AREA_FACTS.values() for section in fact.sections)


def sections(request: ProbeRequest) -> tuple[Section, ...]:
    """Return the sections of all areas for a request."""
    return tuple(
        section for fact in AREA_FACTS.values() for section in fact().sections_for(request)
    )


# The sections that run with sudo where an inventory allows it; some of them only if the training
# user is not the SSH user.
ROOT_SECTIONS = frozenset(
    each.name for each in (*SECTIONS, *sections(ProbeRequest(trains_apart=True))) if each.root
)


class UnreadSection(State):
    """A section that gave no usable answer: its area, its name and the reason."""

    area: str
    section: str
    reason: str


if TYPE_CHECKING:

    class NodeState(State):
        """The state of each area of a node, and the sections that gave no usable answer.

        At runtime it has a field for each area of the register. The areas here are those that rules
        of other areas use as attributes: mypy then knows their types.
        """

        driver: DriverState
        shm: ShmState
        limits: LimitsState
        toolchain: ToolchainState
        nccl: NcclState
        ssh: SshState
        network: NetworkState
        env: EnvState
        workspace: WorkspaceState
        host: HostState
        unreadable: tuple[UnreadSection, ...] = ()
else:
    NodeState = create_model(
        "NodeState",
        __base__=State,
        __module__=__name__,
        __doc__="The state of each area of a node, and the sections that gave no usable answer.",
        **{area: (fact.state, ...) for area, fact in AREA_FACTS.items()},
        unreadable=(tuple[UnreadSection, ...], ()),
    )


S = TypeVar("S", bound=State)


def unread_areas() -> dict[str, dict[str, None]]:
    """Return the empty state of each area, in plain types, without reading a fact."""
    return {area: dict.fromkeys(fact.state.model_fields) for area, fact in AREA_FACTS.items()}


def area_of(found: NodeState, kind: type[S]) -> S:
    """Return the state of an area by its class: of any area, also one without an attribute here."""
    return next(each for each in vars(found).values() if isinstance(each, kind))


def placed(prefix: str, found: NodeState) -> Places | None:
    """Return where the files of a Python environment are on a node; None if that is unknown."""
    return (found.nccl.places or {}).get(prefix)


def parse(
    output: list[str], asked: Sequence[Section] = SECTIONS, times: Times | None = None
) -> NodeState:
    """Return the state from the lines of a probe's `output`."""
    readings = read(output, asked, times)
    areas = {area: fact.parse(readings) for area, fact in AREA_FACTS.items()}
    unreadable = [
        UnreadSection(area=each.section.split(".")[0], section=each.section, reason=each.reason)
        for each in readings.unread
    ]
    return NodeState.model_validate({**areas, "unreadable": unreadable})


class NodeProbe(ProbeFact):
    """Returns `NodeState` as a dict: {"shm": {...}, "limits": {...}, ..., "unreadable": [...]}."""

    sections = SECTIONS

    @override
    def sections_for(self, request: ProbeRequest) -> Sequence[Section]:
        return sections(request)

    def state_in(self, output: list[str]) -> NodeState:
        """Return the state in the lines of an answer."""
        return parse(output, self.asked or self.sections, self.times)

    @override
    def parsed(self, output: list[str]) -> dict[str, Any]:
        return self.state_in(output).model_dump(mode="json")

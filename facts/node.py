"""NodeState: the state of all areas of a node, from one probe in one round trip."""

from collections.abc import Mapping, Sequence
from typing import Any

from typing_extensions import override

from gpu_node.facts.areas import AREAS, Areas, area_folder
from gpu_node.facts.probe.base import NOT_ASKED, AreaFact, ProbeFact, State
from gpu_node.facts.probe.file_systems import Places
from gpu_node.facts.probe.protocol import Readings, Section, Times, read
from gpu_node.facts.probe.request import ProbeRequest


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


class NodeState(State, Areas):
    """The state of each area of a node, and the sections that gave no usable answer."""

    unreadable: tuple[UnreadSection, ...] = ()


# The register names the states; only here they are imported.
NodeState.model_rebuild(
    _types_namespace={fact.state.__name__: fact.state for fact in AREA_FACTS.values()}
)


def state_of(facts: Mapping[str, Any]) -> NodeState:
    """Return the state that has these facts, in plain types; what they lack is None, not read."""
    areas = {
        area: {**_unread(fact.state), **facts.get(area, {})} for area, fact in AREA_FACTS.items()
    }
    return NodeState.model_validate({**facts, **areas})


def _unread(state: type[State]) -> dict[str, None]:
    return dict.fromkeys(name for name, field in state.model_fields.items() if field.is_required())


def placed(prefix: str, state: NodeState) -> Places | None:
    """Return where the files of a Python environment are on a node; None if that is unknown."""
    return (state.nccl.places or {}).get(prefix)


def parse(
    output: list[str], asked: Sequence[Section] = SECTIONS, times: Times | None = None
) -> NodeState:
    """Return the state from the lines of a probe's `output`."""
    return parse_readings(read(output, asked, times))


def parse_readings(readings: Readings) -> NodeState:
    """Return the state from the answers of a probe."""
    areas = {area: fact.parse(readings) for area, fact in AREA_FACTS.items()}
    unreadable = [
        UnreadSection(area=each.section.split(".")[0], section=each.section, reason=each.reason)
        for each in readings.unread
    ]
    return NodeState.model_validate({**areas, "unreadable": unreadable})


def parse_part(readings: Readings) -> NodeState:
    """Return the state of a node that was asked only some sections; the others are None."""
    for section in SECTIONS:
        readings.sections.setdefault(section.name, NOT_ASKED)
    state = parse_readings(readings)
    asked = tuple(each for each in state.unreadable if each.reason != NOT_ASKED.problem)
    return state.model_copy(update={"unreadable": asked})


class NodeProbe(ProbeFact):
    """Returns `NodeState` as a dict: {"shm": {...}, "limits": {...}, ..., "unreadable": [...]}.

    With `only`, beginnings of the names of sections, it asks those: the rest of the state is None.
    """

    sections = SECTIONS
    only: tuple[str, ...] = ()

    @override
    def sections_for(self, request: ProbeRequest) -> Sequence[Section]:
        asked = sections(request)
        return [each for each in asked if each.name.startswith(self.only)] if self.only else asked

    def state_in(self, output: list[str]) -> NodeState:
        """Return the state in the lines of an answer."""
        if self.only:
            return parse_part(read(output, self.asked, self.times))
        return parse(output, self.asked or self.sections, self.times)

    @override
    def parsed(self, output: list[str]) -> dict[str, Any]:
        return self.state_in(output).model_dump(mode="json")

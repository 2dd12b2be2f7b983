"""An area of the node: its sections of the probe, the parser of their answers, its pyinfra fact."""

import base64
import gzip
import shlex
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, create_model
from pyinfra.api import FactBase
from pyinfra.api.exceptions import FactProcessError
from typing_extensions import Self, override

from gpu_node.facts.probe import bounds
from gpu_node.facts.probe.protocol import Reading, Readings, Section, Times, read, render
from gpu_node.facts.probe.request import ProbeRequest, listed
from gpu_node.facts.probe.rows import rows_of

# MAX_ARG_STRLEN of Linux.
_LONGEST_ARGUMENT = 128 * 1024
NOT_ASKED = Reading(0, "", "not asked")


class State(BaseModel):
    """The state of one area; a field that could not be read is None, never a default."""

    # Where it can, a module of models does without `from __future__ import annotations`: pydantic
    # would compile each annotation at its import, a fortieth of a report of two nodes.
    model_config = ConfigDict(frozen=True, extra="forbid")
    # The maximum length of a text, in characters.
    longest: ClassVar[int] = bounds.LONGEST

    @override
    def model_post_init(self, context: Any) -> None:
        """Check the bounds of a new state; as part of another one it is not checked again."""
        bounds.require(*vars(self).values(), longest=self.longest)

    @classmethod
    def known(cls, fact: dict[str, Any]) -> Self:
        """Return the state of a fact; after a broken connection pyinfra has an empty answer."""
        needed = {name for name, each in cls.model_fields.items() if each.is_required()}
        return cls.model_validate({**dict.fromkeys(needed), **_named(fact, cls)})


def _named(fact: dict[str, Any], state: type[State]) -> dict[str, Any]:
    return {name: fact[name] for name in state.model_fields if name in fact}


def as_argument(script: str) -> str:
    """Return a script as one argument of at most 128 KiB, as pyinfra sends the command of a fact.

    A longer one is compressed: pyinfra's facts have no stdin. CentOS 7 and busybox have base64 and
    gzip as well.
    """
    # pyinfra quotes it once, and the login shell's command line once more.
    if len(shlex.quote(shlex.quote(script))) < _LONGEST_ARGUMENT:
        return script
    packed = base64.b64encode(gzip.compress(script.encode(), mtime=0)).decode()
    return f'eval "$(echo {packed} | base64 -d | gzip -d)"'


class ProbeFact(FactBase[dict[str, Any]]):
    """Base of facts that ask sections of the probe; a subclass defines `sections` and `parsed`.

    `environments` are folders of Python environments to ask about, as a list or with commas.
    """

    sections: ClassVar[Sequence[Section]] = ()
    asked: Sequence[Section] = ()
    # Set if the caller records when it asks; pyinfra's own facts do not.
    times: Times | None = None
    # Variables of by_sudo.sh with a password: for a script that is sent by stdin alone.
    by: Mapping[str, str] = MappingProxyType({})

    @staticmethod
    @override
    def default() -> dict[str, Any]:
        return {}

    @override
    def command(self, environments: Sequence[str] | str = (), deep: bool = False) -> str:
        return as_argument(
            self.script_for(ProbeRequest(environments=listed(environments), deep=deep))
        )

    def script_for(self, request: ProbeRequest) -> str:
        """Return the script for a request."""
        self.asked = self.sections_for(request)
        return render(self.asked, sudo=request.sudo, by=self.by)

    def sections_for(self, request: ProbeRequest) -> Sequence[Section]:
        """Return the sections to ask; most areas ask only about the node."""
        return self.sections

    @override
    def process(self, output: list[str]) -> dict[str, Any]:
        try:
            return self.parsed(output)
        except Exception as error:  # an exception of another class would end the run for all hosts
            raise FactProcessError(f"{self.name}: {bounds.in_words(error)}") from error

    def parsed(self, output: list[str]) -> dict[str, Any]:
        """Return the result of the probe's output, in plain types."""
        raise FactProcessError("this fact has no parser")


# By section: the fields of the state that its answer gives, and the parser, which returns a tuple
# for several fields.
Parsers = Mapping[str, tuple[str, Callable[[str], Any]]]


def taken(readings: Readings, parsers: Parsers) -> dict[str, Any]:
    """Return the values of fields; what cannot be read is None, and added to `readings.unread`.

    A section that was not asked gives none.
    """
    values: dict[str, Any] = {}
    for section, (fields, parse) in parsers.items():
        if section in readings.sections:
            value, names = readings.take(section, parse), fields.split()
            several = (value,) if len(names) == 1 else value or (None,) * len(names)
            values |= zip(names, several, strict=True)
    return values


class AreaFact(ProbeFact):
    """Base of the fact of an area: its state as a dict, with `unreadable` (section: reason).

    A subclass defines `state` (the class of its state) and `parsers`, or `parse` if its fields need
    more than a parser each. It has `sections_for` if the inventory decides what to ask (`sections`
    are those without one), otherwise `sections`. A section that was not asked is None, and is not
    `unreadable`. The rows of facts/AREA/readings.yml add sections, and fields that the class of its
    state lacks.
    """

    state: ClassVar[type[State]]
    parsers: ClassVar[Parsers] = MappingProxyType({})

    @override
    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "sections" not in vars(cls):
            cls.sections = tuple(cls().sections_for(ProbeRequest()))
        rows = rows_of("".join(cls.__module__.split(".")[2:3]))
        if not rows:
            return
        fields: Any = {row.name: row.field for row in rows}
        name, module = cls.state.__name__, cls.__module__
        cls.state = create_model(name, __base__=cls.state, __module__=module, **fields)
        parsers: Parsers = {row.section.name: (row.name, row.read) for row in rows}
        sections = tuple(row.section for row in rows)
        parse, asks = cls.parse, vars(cls).get("sections_for")

        def parse_all(readings: Readings) -> State:
            own = dict(parse(readings))
            return cls.state.model_validate({**own, **taken(readings, parsers)})

        cls.sections = (*cls.sections, *sections)
        cls.parse = staticmethod(parse_all)  # type: ignore[method-assign]
        if asks is not None:
            asks_all = staticmethod(lambda request: (*asks(request), *sections))
            cls.sections_for = asks_all  # type: ignore[method-assign, assignment]

    @classmethod
    def parse(cls, readings: Readings) -> State:
        """Return the area's state; what cannot be read is added to `readings.unread`."""
        return cls.state.model_validate(taken(readings, cls.parsers))

    @override
    def parsed(self, output: list[str]) -> dict[str, Any]:
        readings = read(output, self.asked or self.sections)
        for section in self.sections:
            readings.sections.setdefault(section.name, NOT_ASKED)
        state = self.parse(readings)
        unreadable = {
            unread.section: unread.reason
            for unread in readings.unread
            if unread.reason != NOT_ASKED.problem
        }
        return {**state.model_dump(mode="json"), "unreadable": unreadable}


class SectionFact(FactBase[dict[str, Any]]):
    """Base of facts that ask one section in the probe's frame: a login shell may print anything.

    A subclass defines `command`, the parser of the answer, and the state without one.
    """

    unread: ClassVar[State]
    asked: Section

    @staticmethod
    def parser(text: str) -> State:
        """Return the state that an answer gives."""
        raise ValueError("this fact has no parser")

    @classmethod
    @override
    def default(cls) -> dict[str, Any]:
        return cls.unread.model_dump(mode="json")

    def script_for(self, section: Section) -> str:
        """Return the script that asks a section."""
        self.asked = section
        return render([section])

    @override
    def process(self, output: list[str]) -> dict[str, Any]:
        readings = read(output, [self.asked])
        state = readings.take(self.asked.name, self.parser)
        if state is None:
            raise FactProcessError(f"{self.name}: {readings.unread[0].reason}")
        return state.model_dump(mode="json")

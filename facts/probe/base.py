"""An area of the node: its sections of the probe, the parser of their answers, its pyinfra fact."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict
from pyinfra.api import FactBase
from pyinfra.api.exceptions import FactProcessError
from typing_extensions import Self, override

from facts.named import Named, listed
from facts.probe import Reading, Readings, Section, read, render

_NOT_ASKED = Reading(0, "", "not asked")


class State(BaseModel):
    """What was found in one area; a field is None where it could not be read, never a default."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @classmethod
    def known(cls, fact: dict[str, Any]) -> Self:
        """Return what an area's fact says; of a broken connection pyinfra has an empty answer."""
        return cls.model_validate({name: fact.get(name) for name in cls.model_fields})


class ProbeFact(FactBase[dict[str, Any]]):
    """Base of the facts that ask the probe's sections; a subclass says `sections` and `told`.

    `environments` are folders of Python environments to ask about, as a list or with commas.
    """

    sections: ClassVar[Sequence[Section]] = ()
    asked: Sequence[Section] = ()

    @staticmethod
    @override
    def default() -> dict[str, Any]:
        return {}

    @override
    def command(self, environments: Sequence[str] | str = (), deep: bool = False) -> str:
        return self.asking(Named(environments=listed(environments), deep=deep))

    def asking(self, named: Named) -> str:
        """Return the script that asks about what an inventory names."""
        self.asked = self.sections_for(named)
        return render(self.asked, sudo=named.sudo)

    def sections_for(self, named: Named) -> Sequence[Section]:
        """Return the sections to ask; most areas ask about the node alone."""
        return self.sections

    @override
    def process(self, output: list[str]) -> dict[str, Any]:
        try:
            return self.told(output)
        except Exception as error:  # any other class would end the run for every host
            raise FactProcessError(f"{self.name}: {error}") from error

    def told(self, output: list[str]) -> dict[str, Any]:
        """Return what the probe's output says, in plain types."""
        raise FactProcessError("this fact reads nothing")


class AreaFact(ProbeFact):
    """Base of an area's own fact: its state as a dict, with what was `unreadable` beside it.

    What was not asked is None, and not counted as unreadable.
    """

    @staticmethod
    def parse(readings: Readings) -> State:
        """Return the area's state; what cannot be read goes to `readings.unread`."""
        raise FactProcessError("this fact has no parser")

    @override
    def told(self, output: list[str]) -> dict[str, Any]:
        readings = read(output, self.asked or self.sections)
        for section in self.sections:
            readings.sections.setdefault(section.name, _NOT_ASKED)
        state = self.parse(readings)
        unreadable = {
            unread.section: unread.reason
            for unread in readings.unread
            if unread.reason != _NOT_ASKED.problem
        }
        return {**state.model_dump(mode="json"), "unreadable": unreadable}


class SectionFact(FactBase[dict[str, Any]]):
    """Base of the facts that ask one section, as the probe does: whatever the login shell says."""

    asked: Section

    def asking(self, section: Section) -> str:
        """Return the script that asks a section."""
        self.asked = section
        return render([section])

    def told(self, output: list[str], parse: Callable[[str], State]) -> dict[str, Any]:
        """Return what the section's answer says, in plain types."""
        readings = read(output, [self.asked])
        found = readings.take(self.asked.name, parse)
        if found is None:
            raise FactProcessError(f"{self.name}: {readings.unread[0].reason}")
        return found.model_dump(mode="json")

"""An area of the node: its sections of the probe, the parser of their answers, its pyinfra fact."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict
from pyinfra.api import FactBase
from pyinfra.api.exceptions import FactProcessError
from typing_extensions import override

from facts.probe import Readings, Section, read, render


class State(BaseModel):
    """What was found in one area; a field is None where it could not be read, never a default."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class AreaFact(FactBase[dict[str, Any]]):
    """Base of an area's own fact: the state as a plain dict, with what was `unreadable` beside it.

    Not for use itself; a subclass says `sections` and `parse`.
    """

    sections: ClassVar[Sequence[Section]] = ()

    @staticmethod
    def parse(readings: Readings) -> State:
        """Return the area's state; what cannot be read goes to `readings.unread`."""
        raise FactProcessError("this fact has no parser")

    @staticmethod
    @override
    def default() -> dict[str, Any]:
        return {}

    @override
    def command(self) -> str:
        return render(self.sections)

    @override
    def process(self, output: list[str]) -> dict[str, Any]:
        try:
            readings = read(output, self.sections)
            state = self.parse(readings)
        except Exception as error:  # any other class would end the run for every host
            raise FactProcessError(f"{self.name}: {error}") from error
        unreadable = {unread.section: unread.reason for unread in readings.unread}
        return {**state.model_dump(mode="json"), "unreadable": unreadable}

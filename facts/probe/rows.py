"""Rows of facts/AREA/readings.yml: a value that is all of a file, such as one of /proc or /sys."""

import re
import shlex
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from typing_extensions import Self

from gpu_node.facts.probe.lines import lines_of
from gpu_node.facts.probe.protocol import Section
from gpu_node.facts.probe.readers import line, number
from gpu_node.facts.row_files import checked, load

_FACTS = Path(__file__).parents[1]
_NAME = re.compile("[a-z][a-z0-9_]*", re.ASCII)
_Files = Annotated[
    tuple[Annotated[str, Field(pattern="^/")], ...],
    BeforeValidator(lambda given: [given] if isinstance(given, str) else given),
]


class Row(BaseModel):
    """A value: the field of the state, its file, how it is read, and what a healthy node has."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    area: str
    # Of several files the value is their lines, with a blank between them.
    file: _Files
    type: Literal["number", "text"]
    # Of a number: another one is unreadable.
    least: int = 0
    most: int = 2**63 - 1
    # A node without the file could not be read, or has no such value.
    absent: Literal["unreadable", "normal"] = "unreadable"
    # What the file of a healthy node has.
    healthy: str

    @model_validator(mode="after")
    def _reads_its_own(self) -> Self:
        if not _NAME.fullmatch(self.name):
            raise ValueError(
                "a name has small letters, digits and _ alone, and begins with a letter"
            )
        self.read(self.healthy)
        return self

    @property
    def field(self) -> tuple[Any, None]:
        """The type of the field and its default: it was not read."""
        return (int if self.type == "number" else str) | None, None

    @property
    def section(self) -> Section:
        """What the probe asks."""
        test = f"[ ! -e {shlex.quote(self.file[0])} ] || " * (self.absent == "normal")
        command = f"{test}cat {shlex.join(self.file)}"
        return Section(f"{self.area}.{self.name.replace('_', '-')}", command, light=True)

    def read(self, text: str) -> int | str | None:
        """Return the value that an answer is; None where the file is absent."""
        if self.absent == "normal" and not text:
            return None
        text = " ".join(map(str.strip, lines_of(text)))
        value = number(text) if self.type == "number" else line(text)
        if isinstance(value, int) and not self.least <= value <= self.most:
            raise ValueError(f"not {self.least} to {self.most}: {value}")
        return value


def rows_of(area: str, facts: Path = _FACTS) -> tuple[Row, ...]:
    """Return the rows of an area; it may have none."""
    path = facts / area / "readings.yml"
    return tuple(
        checked(Row, path, name, {**row, "name": name, "area": area})
        for name, row in load(path).items()
    )

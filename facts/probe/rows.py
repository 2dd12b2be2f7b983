"""Rows of facts/AREA/readings.yml: one value of a node each, of a file or of a short command."""

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, model_validator
from typing_extensions import Self

from gpu_node.facts.probe.readers import line, lines, number

_FACTS = Path(__file__).parents[1]
Value = int | str | tuple[str, ...]
# The type of a field, and the reader of its answer.
_TYPES: dict[str, tuple[Any, Callable[[str], Value]]] = {
    "number": (int | None, number),
    "text": (str | None, line),
    "words": (tuple[str, ...] | None, lambda text: tuple(text.split())),
    "lines": (tuple[str, ...] | None, lines),
}


class Row(BaseModel):
    """A value: where it is, how it is read, and what a healthy node has."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    # The field of the state.
    name: str
    area: str
    # One of them: an absolute path, or a command of POSIX sh that only reads.
    file: str = ""
    run: str = ""
    type: Literal["number", "text", "words", "lines"]
    # Of a number: another one is unreadable.
    least: int = 0
    most: int = 2**63 - 1
    # A node without the file could not be read, or has no such value.
    absent: Literal["unreadable", "normal"] = "unreadable"
    # The answer of a healthy node, as it is sent.
    healthy: str

    @model_validator(mode="after")
    def _is_complete(self) -> Self:
        """Refuse a row with two places or none, and one that cannot read its own answer."""
        if self.file.startswith("/") == bool(self.run):
            raise ValueError("needs a file, as an absolute path, or run: one of them")
        if self.run and self.absent == "normal":
            raise ValueError("absent: normal is for a file")
        self.read(self.healthy)
        return self

    @property
    def section(self) -> str:
        """The section of the probe."""
        return f"{self.area}.{self.name.replace('_', '-')}"

    @property
    def field(self) -> tuple[Any, None]:
        """The type of the field and its default, which is that it was not read."""
        return _TYPES[self.type][0], None

    @property
    def command(self) -> str:
        """What the probe runs."""
        file = shlex.quote(self.file)
        test = f"[ ! -e {file} ] || " * (self.absent == "normal")
        return self.run or f"{test}cat {file}"

    def read(self, text: str) -> Value | None:
        """Return the value that an answer is; None where the file is absent."""
        if self.absent == "normal" and not text:
            return None
        value = _TYPES[self.type][1](text)
        if isinstance(value, int) and not self.least <= value <= self.most:
            raise ValueError(f"not {self.least} to {self.most}: {value}")
        return value


def rows_of(area: str, facts: Path = _FACTS) -> tuple[Row, ...]:
    """Return the rows of an area; it may have none."""
    path = facts / area / "readings.yml"
    loaded = yaml.safe_load(path.read_text(encoding="utf-8")) if path.exists() else {}
    rows = ({"name": name, "area": area, **row} for name, row in loaded.items())
    return tuple(map(Row.model_validate, rows))

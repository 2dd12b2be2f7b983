"""Reads case files: FOLDER/SUBJECT.yml has the cases of a rule, a section or an operation.

A comment above a name says what the case is about.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from typing_extensions import override

# A case begins with its comment, if it has one, and its name.
_CASE = re.compile(r"^((?:#.*\n)*)([^\s#].*):\n", re.MULTILINE)


@dataclass(frozen=True, eq=False)
class Case:
    """A case and the subject that it is about; `about` is its comment without the `#`."""

    subject: str
    name: str
    about: str
    data: Mapping[str, Any] = field(repr=False)

    @override
    def __str__(self) -> str:
        return f"{self.subject}/{self.name}"


def load(text: str) -> Any:
    """Return what `yaml.safe_load` does, in a tenth of its time."""
    return yaml.load(text, Loader=yaml.CSafeLoader)


def merged(base: object, change: object) -> object:
    """Return `base` with mappings merged key by key, and anything else replaced."""
    if not isinstance(base, dict) or not isinstance(change, Mapping):
        return change
    return {**base, **{key: merged(base.get(key), value) for key, value in change.items()}}


def parse(subject: str, text: str) -> list[Case]:
    """Return the cases of a file; ValueError where two have the same name."""
    data: dict[str, dict[str, Any]] = load(text)
    found = [
        Case(subject, name, comment.replace("# ", "").strip(), data[name])
        for comment, key in _CASE.findall(text)
        for name in (key.strip('"'),)
    ]
    names = [case.name for case in found]
    if sorted(names) != sorted(data):
        raise ValueError(f"{subject}: a name occurs twice, or is not alone on its line: {names}")
    return found


@cache
def cases(folder: Path) -> tuple[Case, ...]:
    """Return all cases of a folder, by subject and name."""
    return tuple(
        case for path in sorted(folder.glob("*.yml")) for case in parse(path.stem, path.read_text())
    )


def find(folder: Path, subject: str, name: str) -> Case:
    """Return one case; StopIteration where there is none."""
    return next(each for each in cases(folder) if (each.subject, each.name) == (subject, name))

"""The causes of failed jobs: a file of `causes/` each, and what such a file has."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

FOLDER = Path(__file__).parent / "causes"
# What an id begins with where it stands beside the ids of rules.
PREFIX = "cause."
# Whose it is: neither, where a person stopped the job.
Side = Literal["machines", "code", "neither"]
Confidence = Literal["high", "medium", "low"]
# cause: the root of a failure. symptom: known to follow from several causes; it is an answer where
# none of them is seen. consequence: what other processes say once one has failed; never an answer.
Level = Literal["cause", "symptom", "consequence"]
_PARSER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class CauseError(ValueError):
    """A file of `causes/` that cannot be used."""


def _compiled(text: str) -> str:
    re.compile(text)
    return text


Regex = Annotated[str, AfterValidator(_compiled)]


class Model(BaseModel):
    """A mapping of a cause's file, of which no other key is known."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Source(Model):
    """Whose text a pattern is: a file of a package, or where the text was seen.

    `versions`: those whose file has the text. `seen`: a URL, or the name of a recorded log.
    """

    package: str = ""
    versions: str = ""
    file: str = ""
    seen: str = ""


class Pattern(Model):
    """Lines that show a cause.

    `has`: text that the line has, found in one pass; `line`: a regex for the whole line. `near`:
    regexes, for each of which a line at most `scan.NEAR` lines away must match; `without`: none
    may. `alone`: whether it is a failure where nothing else is. `final`: no job goes on after it.
    """

    has: str = Field(min_length=4)
    line: Regex = ""
    near: tuple[Regex, ...] = ()
    without: tuple[Regex, ...] = ()
    confidence: Confidence = "high"
    alone: bool = True
    final: bool = False
    source: Source


class Cause(Model):
    """What made a job fail, what shows it, and what cures it.

        `explains`: other causes of which this one is the reason where both are seen; each cause
    explains all symptoms and consequences. No `patterns`: it is known by other means. `rules`:
    those of the report that look for it.
    """

    name: str
    says: str
    side: Side
    level: Level = "cause"
    patterns: tuple[Pattern, ...] = ()
    explains: tuple[str, ...] = ()
    confirm: str = ""
    remedy: str = ""
    rules: tuple[str, ...] = ()
    source: str = ""

    @property
    def id(self) -> str:
        """As `gpu-node explain` takes it."""
        return PREFIX + self.name


def load(path: Path) -> Cause:
    """Return the cause of a file; a CauseError says what is wrong with it."""
    try:
        data = yaml.load(path.read_text("utf-8"), Loader=_PARSER)  # noqa: S506
        return Cause.model_validate({"name": path.stem, **data})
    except (yaml.YAMLError, ValidationError, TypeError) as error:
        raise CauseError(f"{path.name}: {error}") from None


@cache
def causes() -> Mapping[str, Cause]:
    """All causes by name."""
    return {path.stem: load(path) for path in sorted(FOLDER.glob("*.yml"))}

"""The causes of failed jobs: a file of `causes/` each, and what such a file has."""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gpu_node.drift import xids
from gpu_node.drift.tables import pip_torch
from gpu_node.facts.row_files import parsed

FOLDER = Path(__file__).parent / "causes"
# What stands for the end of a process in a reporter's text, and a regex for what no row has.
_END, _NEVER = re.compile("NAME|NUMBER|NEGATIVE|CODE|WORDS"), "(?!)"
# How the source begins of a text that a page describes: no text of a release, so never sure.
DESCRIBED = "described at "
# Who prints an error where no emitter is known by the form of its lines.
PROGRAM = "any program"
# What an id begins with where it stands beside the ids of rules.
PREFIX = "cause."
# The stage of a job whose lines say none.
UNKNOWN = "unknown"
# Whose it is: neither, where a person stopped the job.
Side = Literal["machines", "code", "neither"]
Confidence = Literal["high", "medium", "low"]
# cause: the root of a failure. symptom: known to follow from several causes; it is an answer where
# none of them is seen. consequence: what other processes say once one has failed; never an answer.
Level = Literal["cause", "symptom", "consequence"]
# In a remedy: the command for a torch that has kernels for a model of GPU.
_TORCH = re.compile(r"\{torch for (\w+)\}")
_R = TypeVar("_R", bound=BaseModel)


class Model(BaseModel):
    """A mapping of a cause's file, of which no other key is known."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Source(Model):
    """Whose text a pattern is: a file of a package, or where the text was seen.

    `versions`: those whose file has the text. `seen`: the URL of a file of a release or of a
    thread, the name of a recorded log, or, after DESCRIBED, the URL of a page.
    """

    package: str = ""
    versions: str = ""
    file: str = ""
    seen: str = ""


class Pattern(Model):
    """Lines that show a cause.

    `has`: text that the line has, found in one pass; `line`: a regex for the whole line. `near`:
    regexes, for each of which a line at most `scan.NEAR` lines away must match; `without`: none
    may. `stage`: what the job must have done last before it. `alone`: whether it is a failure where
    nothing else is, also in a log of a job that works. `final`: no job goes on after it. `ends`: it
    reports how a process ended, which proves no cause.
    """

    has: str = Field(min_length=4)
    line: str = ""
    near: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    stage: str = ""
    confidence: Confidence = "high"
    alone: bool = True
    final: bool = False
    ends: bool = False
    source: Source

    @property
    def is_specific(self) -> bool:
        """Whether it may prove its cause: its text is one of a release, and of nothing else."""
        return self.confidence == "high" and not self.source.seen.startswith(DESCRIBED)


class Cause(Model):
    """What made a job fail, what shows it, and what cures it.

    `explains`: other causes of which this one is the reason where both are seen; each cause
    explains all symptoms and consequences. No `patterns`: it is known by other means. `rules`:
    those of the report that look for it. `look`: what to look at where only consequences are seen.
    `was`: names that `gpu-node explain` takes as well.
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
    look: tuple[str, ...] = ()
    was: tuple[str, ...] = ()
    source: str = ""

    @property
    def id(self) -> str:
        """As `gpu-node explain` takes it."""
        return PREFIX + self.name


class Emitter(Model):
    """A program or library that prints errors: lines with `has` that match `line` are errors.

    `without` may not match. `place`: where it stands among the emitters of one failure. `ends`:
    nothing follows such a line.
    """

    name: str
    place: Literal["first", "", "last"] = ""
    ends: bool = False
    has: str = Field(min_length=4)
    line: str = ""
    without: str = "$^"
    source: str

    @property
    def is_own(self) -> bool:
        """Whether it speaks of itself, in a text of a release."""
        return self.place != "last" and not self.source.startswith(DESCRIBED)

    def speaks(self, text: str, bare: str) -> bool:
        """Whether a line, with its prefixes and without, is an error of this emitter."""
        return (
            self.has in text
            and any(re.search(self.line, each) for each in (text, bare))
            and not re.search(self.without, text)
        )


class Row(Model):
    """A row of a table: its regex, and where it is from."""

    line: str
    source: str


class Meaning(Row):
    """The cause that an error means: one of emitters which names an object as `line` does.

    Or an exception that begins as `line` does, and that a `file` raised.
    """

    of: tuple[str, ...] = ()
    object: str = ""
    file: str = ""
    cause: str


class Start(Row):
    """How a process says at its start which `rank` of how many (`size`) it is, and that all are."""

    has: str = Field(min_length=4)
    all: str = ""


class Comparison(Row):
    """A cause that is seen where values of lines with `has` differ between their `by`."""

    cause: str
    has: str = Field(min_length=4)
    by: Literal["rank", "node"]


def load(path: Path) -> Cause:
    """Return the cause of a file; an error has its name."""
    try:
        cause = Cause.model_validate({"name": path.stem, **parsed(path)})
    except (yaml.YAMLError, ValidationError, TypeError) as error:
        raise ValueError(f"{path.name}: {error}") from None
    remedy = _TORCH.sub(lambda found: pip_torch([found[1]]), cause.remedy)
    return cause.model_copy(update={"remedy": remedy})


@cache
def causes() -> Mapping[str, Cause]:
    """All causes by name, with the patterns that the tables give them."""
    found = {path.stem: load(path) for path in sorted(FOLDER.glob("*.yml"))}
    for table in (_of_errnos, _of_exits, _of_stages, _of_xids):
        for name, pattern in [*table(found)]:
            cause = found[name]
            found[name] = cause.model_copy(update={"patterns": (*cause.patterns, pattern)})
    return found


def _rows(of: type[_R], name: str) -> tuple[_R, ...]:
    return tuple(map(of.model_validate, table(name)))


# The rows of a table each, in the order of its file: who prints errors, how processes count
# themselves, what is compared between ranks or nodes, and what exceptions mean.
emitters = cache(partial(_rows, Emitter, "emitters"))
starts = cache(partial(_rows, Start, "starts"))
comparisons = cache(partial(_rows, Comparison, "compared"))
exceptions = cache(partial(_rows, Meaning, "raised"))


@cache
def speakers() -> tuple[Emitter, ...]:
    """Who prints errors: the emitters, then any program, in the forms of its levels."""
    data = table("objects")
    program, of = {"name": PROGRAM, "without": data["graded"]}, data["endings"]
    # A program may begin them in small letters.
    levels = (
        {"has": each[1:], "line": of["line"].replace("WORDS", each), "source": page}
        for page, words in of["words"].items()
        for each in words
    )
    rows = ({**program, **row} for row in (*data["levels"], *levels))
    return (*emitters(), *map(Emitter.model_validate, rows))


@cache
def meanings() -> tuple[Meaning, ...]:
    """What errors mean by their objects, in the order of the file."""
    data = table("objects")
    return tuple(
        Meaning.model_validate({**pair, "line": data["objects"][pair["object"]]})
        for pair in data["pairs"]
    )


def meant(names: Iterable[str], text: str) -> str | None:
    """Return the cause that an error of emitters means by the object that its text names."""
    about = (each for each in meanings() if {PROGRAM, *names} & {*each.of})
    return next((each.cause for each in about if re.search(each.line, text)), None)


def raised(text: str, file: str) -> str:
    """Return the cause of an exception by its text and its file; "" for one of the program."""
    fit = (each for each in exceptions() if re.match(each.line, text))
    return next((each.cause for each in fit if re.search(each.file, file)), "")


@cache
def stages() -> Mapping[str, re.Pattern[str]]:
    """What shows each stage of a job, in the order of their file."""
    return {name: re.compile(line) for name, line in table("stages")["stages"].items()}


@cache
def progress() -> Mapping[str, re.Pattern[str]]:
    """What programs print while they work and when they end."""
    return {name: re.compile("|".join(of), re.IGNORECASE) for name, of in table("progress").items()}


def _of_errnos(_: Mapping[str, Cause]) -> Iterator[tuple[str, Pattern]]:
    data = table("errnos")
    for pair in data["pairs"]:
        shown = "|".join(
            rf"(?:[Ee]rrno|os error)[ :=]{{1,3}}{number}\b|\b{number} ?\({words}|(?i:{words})"
            for number, words in (data["errnos"][each].values() for each in pair["errnos"])
        )
        for has, begin in data["components"][pair["of"]].items():
            yield pair["cause"], _low(pair, has=has, line=f"{begin}.{{0,300}}(?:{shown})")


def _of_exits(_: Mapping[str, Cause]) -> Iterator[tuple[str, Pattern]]:
    data = table("exits")
    for reporter in data["reporters"]:
        rest = [data["rest"]] if reporter.get("rest") else []
        for end in (*data["ends"], *rest):
            words = {*_END.findall(reporter["line"])} & {*end}
            if words and reporter.get("never", "") != end.get("NAME"):
                yield end["cause"], _of_end(reporter, end)


def _of_end(reporter: Mapping[str, Any], end: Mapping[str, Any]) -> Pattern:
    def filled(text: str) -> str:
        return _END.sub(lambda word: str(end.get(word[0], _NEVER)), text)

    given = {"confidence": end["confidence"], "ends": True}
    given |= {key: reporter[key] for key in ("confidence", "final") if key in reporter}
    return _low(reporter, **given | {key: filled(reporter[key]) for key in ("has", "line")})


def _of_stages(found: Mapping[str, Cause]) -> Iterator[tuple[str, Pattern]]:
    data = table("stages")
    for pair in data["pairs"]:
        for symptom in data["symptoms"][pair["symptom"]]:
            given = {key: symptom[key] for key in symptom.keys() - {"of"}}
            texts = found[symptom["of"]].patterns if "of" in symptom else ()
            for text in [{"has": each.has, "line": each.line} for each in texts] or [{}]:
                yield pair["cause"], _low(pair, stage=pair["stage"], **given, **text)


def _of_xids(_: Mapping[str, Cause]) -> Iterator[tuple[str, Pattern]]:
    kinds: dict[tuple[str, str, bool], list[str]] = {}
    for code, xid in xids.table().items():
        is_node = xid.whose != "application" and xid.action != "none"
        kinds.setdefault((xid.cause, xid.source, is_node), []).append(str(code))
    kinds = {key: codes for key, codes in kinds.items() if key[0] != "-"}
    for (cause, page, is_node), codes in kinds.items():
        line = rf"(?:\): |previous Xid )(?:{'|'.join(codes)})\b"
        given = {"has": "NVRM: Xid (", "line": line, "source": {"seen": DESCRIBED + page}}
        rest = {} if is_node else {"confidence": "low", "alone": False}
        yield cause, Pattern.model_validate({**given, **rest})


def _low(pair: Mapping[str, str], **given: Any) -> Pattern:
    """Return the pattern of a table's row, of low confidence unless another one is given."""
    source = {"seen": pair["source"]}
    return Pattern.model_validate({"confidence": "low", **given, "source": source})


def table(name: str) -> Any:
    """Return what a file of rows beside the causes has."""
    return parsed(FOLDER.parent / f"{name}.yml")

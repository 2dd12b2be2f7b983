"""The rows of launchers.yml: launchers, and what may stand before them on a launch line."""

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict

from gpu_node.inventories.versions import numbers

_DIGITS = re.compile(r"-?[0-9]{1,9}")
_VALUE = re.compile(r"(?!-)|-$|-[0-9.]+$|-.* ", re.DOTALL)


def _split(value: object) -> object:
    return tuple(value.split()) if isinstance(value, str) else value


Words = Annotated[tuple[str, ...], BeforeValidator(_split)]
# What an option of a launcher can be for; launchers.yml says what each is.
_OfRanks = Literal["nodes", "each", "ranks", "rank", "alone", "variable", "exports"]
_OfMeeting = Literal["address", "port", "endpoint", "backend"]
_OfHosts = Literal["hosts", "hostfile", "include", "exclude", "config", "starter"]
Role = Literal[_OfRanks, _OfMeeting, _OfHosts]


class _Row(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Number(_Row):
    """What an option that is a number allows, and a form of it that is none, with its `words`."""

    least: int = 1
    most: int
    form: re.Pattern[str] | None = None
    words: str = ""

    @property
    def allowed(self) -> str:
        return f"{self.least} to {self.most}{self.words and f', or {self.words}'}"

    def read(self, text: str) -> int | None:
        """Return the number that a text is; None where it is none, or out of the range."""
        number = int(text) if _DIGITS.fullmatch(text) else None
        return number if number is not None and self.least <= number <= self.most else None

    def has(self, text: str) -> bool:
        """Whether a text is allowed."""
        return bool(self.form and self.form.fullmatch(text)) or self.read(text) is not None


PORT = Number(least=0, most=65535)


class Options(NamedTuple):
    """The options at the beginning of words, the words behind them, and what is wrong or unknown.

    `wrong` are options that the program does not have, with those that were meant; `others` those
    that may or may not have a value.
    """

    given: dict[str, str]
    left: list[str]
    wrong: dict[str, str]
    others: tuple[str, ...]


class Program(_Row):
    """A program and its options."""

    names: Words
    flags: Words = ()
    values: Words = ()
    pairs: Words = ()
    also: Mapping[str, str] = {}
    is_whole: bool = False
    abbreviated: bool = False
    dashes: Literal["_", "-", "both"] = "both"
    is_long: bool = False

    def options(self, words: Sequence[str], last: Sequence[str] = ()) -> Options:
        """Return the options at the beginning of words; none follows one of `last`."""
        found = Options({}, list(words), {}, ())
        left, others = found.left, []
        while left and left[0].startswith("-") and left[0] != "-":
            word = left.pop(0)
            if word == "--":
                break
            text, has_value, value = word.partition("=")
            is_letter = not (self.is_long or word[:2] == "--" or text[1:] in self.also)
            if is_letter and len(word) > 2:
                # Behind a letter is its value, or the next letter.
                text, value = word[:2], word[2:]
                has_value = "=" if self._takes(self._named(text)[0]) else ""
                if not has_value:
                    left.insert(0, f"-{value}")
            named = self._named(text)
            name = named[0] if len(named) == 1 else text.lstrip("-")
            if not self._is_known(name):
                meant = named if self.is_whole and len(named) > 1 else self._near(text)
                if meant:
                    found.wrong[text] = ", ".join(map(self.spelled, meant))
                    name = meant[0] if len(meant) == 1 else name
                elif self.is_whole:
                    others.append(text)
            if not has_value:
                value = self._taken(left, self._takes(name))
            found.given[name] = value
            if name in last:
                break
        return found._replace(others=tuple(others))

    @staticmethod
    def _taken(left: list[str], count: int) -> str:
        """Return the values of an option, taken from the words; "" where another option follows."""
        taken: list[str] = []
        # As argparse: what begins with a dash is an option, but for a number and for several words.
        while len(taken) < count and left and _VALUE.match(left[0]):
            taken.append(left.pop(0))
        return " ".join(taken)

    def spelled(self, name: str) -> str:
        """Return an option as a person writes it."""
        if len(name) == 1 or self.is_long:
            return f"-{name}"
        return f"--{name.replace('_', '-') if self.dashes == '-' else name}"

    def _named(self, text: str) -> tuple[str, ...]:
        """Return the option that a word is; several where its beginning is that of several."""
        name = text.lstrip("-")
        is_other = ("-" if self.dashes == "_" else "_" if self.dashes == "-" else "\0") in name
        name = name.replace("-", "_")
        if is_other and self.is_whole:
            return (text,)
        known = self.also.get(name, name)
        if known != name or self._is_known(name) or not (self.abbreviated and text[:2] == "--"):
            return (known,)
        begun = [each for each in (*self._all, *self.also) if len(each) > 1]
        begun = [self.also.get(each, each) for each in begun if each.startswith(name)]
        return tuple(dict.fromkeys(begun)) or (name,)

    def _near(self, text: str) -> list[str]:
        """Return the option that was meant; of a program with plugins, one with another letter.

        None of a program whose flags are not listed: an option may be one of them.
        """
        name = text.lstrip("-").replace("-", "_")
        known = self._all if self.flags else ()
        return get_close_matches(name, known, n=1, cutoff=0.75 if self.is_whole else 0.92)

    @property
    def _all(self) -> tuple[str, ...]:
        return (*self.flags, *self.values, *self.pairs)

    def _is_known(self, name: str) -> bool:
        return name in self._all

    def _takes(self, name: str) -> int:
        """Return how many values an option has."""
        if name in self.values or name in self.pairs:
            return 2 if name in self.pairs else 1
        return int(bool(self.flags) and name not in self.flags)


class Sent(_Row):
    """What the ranks of other nodes get from the shell that starts a launcher."""

    folder: bool = False
    path: bool = False
    python: bool = False
    variables: Words = ()


class Releases(_Row):
    """The releases of a package, from the first to the last, for which a row is complete."""

    package: str
    first: str
    last: str

    def has(self, version: str) -> bool:
        """Whether a release, such as 0.14.2, is one of them."""
        return numbers(self.first) <= numbers(version)[:2] <= numbers(self.last)


class Launcher(Program):
    """A launcher; its rows are explained in launchers.yml."""

    commands: Mapping[str, str] = {}
    releases: Releases | None = None
    ranks: str = ""
    starts_any: bool = False
    logs_in: bool = False
    sets_gpus: bool = False
    hosts: Literal["", "slots", "mpi", "names"] = ""
    roles: Mapping[Role, str] = {}
    defaults: Mapping[Role, Annotated[str, BeforeValidator(str)]] = {}
    numbers: Mapping[str, Number] = {}
    sends: Sent = Sent()

    @property
    def counts_all(self) -> bool:
        """Whether each node starts it, with the ranks of all nodes."""
        return {"ranks", "rank"} <= self.roles.keys()

    def shown(self, role: Role) -> str:
        """Return the option that has a role, as a person writes it."""
        return self.spelled(self.roles[role])


class Before(Program):
    """A program that starts a launcher."""

    verb: str = ""
    words: int = 0
    environment: Literal["", "conda", "project"] = ""
    folders: Words = ()


class Container(Program):
    """A program that starts another one in a container."""

    verbs: Words


class Table(_Row):
    """All rows."""

    launchers: Mapping[str, Launcher]
    before: tuple[Before, ...]
    containers: tuple[Container, ...]
    python: Program


@cache
def table() -> Table:
    """Return the rows."""
    text = (Path(__file__).parent / "launchers.yml").read_text(encoding="utf-8")
    return Table.model_validate(yaml.safe_load(text))


def lines() -> str:
    """Return the launchers whose lines are read, in words."""
    rows = table().launchers.items()
    *most, last = (" ".join((kind, *row.commands.values())) for kind, row in rows)
    return f"a line of {', '.join(most)} or {last}"


def starts_any(name: str) -> bool:
    """Whether a program is a launcher of any program: it belongs to no Python environment."""
    return any(name in row.names and row.starts_any for row in table().launchers.values())
